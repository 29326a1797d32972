// Package bench measures drafts on recorded texts or with a model in the loop.
// Package bench also measures switch plans and conversations on device profiles.
//
// Package bench reads traces and prompts, which are untrusted input, and returns
// results that can be printed as a table or as JSON. The drafters that package bench
// measures are those of package backend/engine/draft, and the planners are those of
// package graphswap. Package bench opens no model and no device, because its caller
// passes engines and executors.
//
// Replaying a text takes microseconds per token. Comparing plans takes seconds, because the
// exact planner takes twice as long for each further block or chunk.
package bench
