// Package bench measures drafts and switch plans: drafts on recorded texts or with
// a model in the loop, and plans and conversations on device profiles.
//
// The package reads traces and prompts, which are untrusted input, and returns
// results that can be printed as a table or as JSON. Drafters come from
// backend/engine/draft, planners from graphswap. The package opens no model and no
// device: the caller passes engines and executors.
//
// Replaying a text takes microseconds per token. Comparing plans takes seconds,
// because the time of the exact planner doubles with each block and chunk.
package bench
