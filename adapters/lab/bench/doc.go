// Package bench measures drafts and switch plans: drafts on recorded texts or with
// a model in the loop, plans and conversations on device profiles.
//
// It reads traces and prompts, which are untrusted input, and returns results that
// print as a table or as JSON. Drafters come from backend/engine/draft, planners
// from graphswap. It opens no model and no device: the caller passes engines and
// executors.
//
// A replay takes microseconds per token. A comparison of plans takes seconds, since
// the exact planner doubles its time with each block and chunk.
package bench
