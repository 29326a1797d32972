// Package bench measures what drafts and plans are worth: drafts on recorded texts, without a
// model. It reads traces, which are hostile input, replays them with package
// spec/replay and prints scores; it holds no drafter of its own but the baseline.
package bench
