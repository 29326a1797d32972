// Package calibration estimates what a model would say from what it almost
// said.
//
// Retrieved text says things in its author's words; the model says them in its
// own. Every position of a prompt gives the model's next-token distribution for
// free, and so does every verified row. A [Table] keeps the likeliest tokens of
// each as fractional counts of the contexts that the position ends, beside the
// counts of what really followed (in-context distribution calibration; sd.npu
// section 4.3, where contexts are single tokens of the prompt).
//
// It plans drafts and never decides what is said, so it cannot change a text.
// Standard library only; no clock, file or device.
package calibration
