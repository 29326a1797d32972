package qnn

import "strings"

// quirk is something that versions of the vendor's library do otherwise than
// their interface says.
type quirk int

const (
	quirkEarlyDeviceUnion quirk = iota
	quirkOneRun
	quirkTalksAtFinalize
	quirkRmsNormBeta
	quirkOption66
	quirkPrintsAtLoad
)

// quirkRow says which core API versions have a quirk and what is done about it.
type quirkRow struct {
	name        string
	first, last uint32 // minors of core API 2; last 0: up to now
	// seen says how it is known, act what this package does.
	seen, act string
}

// quirks is the one place that knows versions. Ranges are those seen; what lies
// between two tested versions is counted to the older one, where acting does no
// harm.
var quirks = [...]quirkRow{
	quirkEarlyDeviceUnion: {
		name: "device options have their union at offset 4", first: 32, last: 35,
		seen: "headers of 2.32; 2.36 and 2.40 read offset 8 and answer 14001 to the other layout",
		act:  "lone numbers are written to both offsets, pairs to the version's",
	},
	quirkOneRun: {
		name: "two runs at once never end", first: 32, last: 39,
		seen: "x86-64 library 2.36, 8 of 12 tries; one at a time 12 of 12 end; 2.40 runs side by side",
		act:  "runs of one library take turns",
	},
	quirkTalksAtFinalize: {
		name: "build stages are printed to stdout", first: 32, last: 36,
		seen: "x86-64 library 2.36; not 2.37 and 2.40",
		act:  "stdout points to stderr during finalize",
	},
	quirkRmsNormBeta: {
		name: "RmsNorm of float16 without beta does not compile", first: 32, last: 39,
		seen: "x86-64 libraries 2.36 and 2.37, finalize answers 1002; 2.40 compiles it",
		act:  "none here: package hexagon gives every RmsNorm its third input, of zeros",
	},
	quirkOption66: {
		name: "an error line of no meaning per graph", first: 40,
		seen: "x86-64 library 2.40: \"" + option66 + "\"",
		act:  "the line is dropped",
	},
	quirkPrintsAtLoad: {
		name: "a line is printed to stdout at load", first: 32,
		seen: "x86-64 libraries 2.36, 2.37, 2.40: \" # LIBNATIVE: ...\"",
		act:  "stdout points to stderr while a library is opened, whatever its version, which is not known yet",
	},
}

const option66 = "unexpected GraphHtpSettings option 66"

// in tells whether a minor version of the core API has the quirk.
func (q *quirkRow) in(minor uint32) bool { return minor >= q.first && (q.last == 0 || minor <= q.last) }

// has tells whether the open library has a quirk.
func (l *Library) has(q quirk) bool { return quirks[q].in(l.provider.Core.Minor) }

// noise tells whether a line at error level means nothing.
func (l *Library) noise(line string) bool {
	return l.has(quirkOption66) && strings.Contains(line, option66)
}
