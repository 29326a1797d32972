// Package calibration estimates what a model would say from what it almost
// said.
//
// Retrieved text says things in its author's words; the model says them in its
// own. Every position of a prompt has a next-token distribution, at the price of
// the head's run for its row, and every verified row has one for free. A [Table]
// keeps the likeliest tokens of each as fractional counts of the contexts that
// the position ends, beside the counts of what really followed (in-context
// distribution calibration; sd.npu section 4.3, where contexts are single tokens
// of the prompt). A [Row] takes them from all logits, 49 152 of which are worth
// a tenth of a millisecond, or from the best few that the device has picked.
//
// A position costs some thirty updates, 2 µs. Tables begin empty with each
// request; they allocate only when they grow.
//
// It plans drafts and never decides what is said, so it cannot change a text.
// Standard library only; no clock, file or device.
package calibration
