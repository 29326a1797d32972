// Package bench measures what drafts are worth: on recorded texts, without a
// model.
package bench
