package tokendb

// Document is a text that is remembered.
type Document struct {
	// Conversation is what the text belongs to: all of it is forgotten at once.
	Conversation uint64
	// Time is when it was remembered, in seconds since 1970.
	Time int64
	// Tokens are the text.
	Tokens []int32
}
