// Package timeline writes what a request did to a file and draws it: as an HTML page,
// or as a trace for Chromium's viewers.
//
// A [Record] holds timelines of package graphswap, usually the forecast and the
// execution of one plan. [WritePage] draws them above each other on one time axis, in a
// single HTML file that loads nothing from the network. [WriteTrace] writes them as
// processes of a Chrome trace, which chrome://tracing and Perfetto open.
package timeline
