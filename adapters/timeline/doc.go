// Package timeline keeps what a request did as a file and draws it: a page for
// people, or the trace format of Chromium's viewers.
//
// A [Record] holds timelines of package graphswap, as a rule the prediction and
// the execution of one plan. [WritePage] draws them one under the other on one
// axis of time, in a single HTML file that asks the network for nothing;
// [WriteTrace] writes them as processes of a Chrome trace, which
// chrome://tracing and Perfetto open.
package timeline
