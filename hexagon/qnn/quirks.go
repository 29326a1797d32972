package qnn

import "strings"

// quirk is a behaviour of some versions of the vendor's library that deviates from
// its documented interface.
type quirk int

const (
	quirkEarlyDeviceUnion quirk = iota
	quirkOneExecute
	quirkPrintsAtFinalize
	quirkRmsNormBeta
	quirkOption66
	quirkPrintsAtLoad
)

// quirkRow describes a quirk and the versions of the core API that have it.
type quirkRow struct {
	name        string
	first, last uint32 // first and last are minor versions of core API 2; last 0 means all later versions too
	// seen says how the quirk was observed, and act what package qnn does about it.
	seen, act string
}

// quirks lists all quirks. Except for the version check in Open, the behaviour of package
// qnn depends on the library's version only through this table. The version range of a
// quirk comes from tests of a few versions. A version between two tested versions is
// assumed to have the quirks of the older one, because the remedy for a quirk does no harm
// on a library without the quirk.
var quirks = [...]quirkRow{
	quirkEarlyDeviceUnion: {
		name: "device options have their union at offset 4", first: 32, last: 35,
		seen: "headers of 2.32; 2.36 and 2.40 read offset 8 and answer 14001 to the other layout",
		act:  "single numbers are written to both offsets, pairs to the offset of the version",
	},
	quirkOneExecute: {
		name: "two executes at once deadlock", first: 32, last: 39,
		seen: "x86-64 library 2.36 in 8 of 12 tries; one at a time, 12 of 12 end; 2.40 executes in parallel",
		act:  "executes of one library run one at a time",
	},
	quirkPrintsAtFinalize: {
		name: "build stages are printed to stdout", first: 32, last: 36,
		seen: "x86-64 library 2.36; not 2.37 and 2.40",
		act:  "stdout points to stderr during finalize",
	},
	quirkRmsNormBeta: {
		name: "RmsNorm of float16 without beta does not compile", first: 32, last: 39,
		seen: "x86-64 libraries 2.36 and 2.37, finalize answers 1002; 2.40 compiles it",
		act:  "none here: package hexagon gives every RmsNorm a third input of zeros",
	},
	quirkOption66: {
		name: "a meaningless error line per graph", first: 40,
		seen: "x86-64 library 2.40: \"" + option66 + "\"",
		act:  "the line is dropped",
	},
	quirkPrintsAtLoad: {
		name: "a line is printed to stdout at load", first: 32,
		seen: "x86-64 libraries 2.36, 2.37, 2.40: \" # LIBNATIVE: ...\"",
		act:  "stdout points to stderr while any library is opened, because its version is not known yet",
	},
}

const option66 = "unexpected GraphHtpSettings option 66"

// in reports whether libraries with the given minor version of the core API have the quirk
// q.
func (q *quirkRow) in(minor uint32) bool { return minor >= q.first && (q.last == 0 || minor <= q.last) }

// has reports whether the open library has a quirk.
func (l *Library) has(q quirk) bool { return quirks[q].in(l.provider.Core.Minor) }

// isNoise reports whether a log line at error level is known to be meaningless.
func (l *Library) isNoise(line string) bool {
	return l.has(quirkOption66) && strings.Contains(line, option66)
}
