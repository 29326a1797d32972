package draft

// conversations finds requests of the same conversation, so that the
// conversation can be forgotten as a whole. A request continues the
// conversation whose earlier prompt is the longest prefix of its own; any other
// request starts a new one. It knows the latest prompts of this process.
type conversations struct {
	recent [64]promptRecord
	next   int
}

// promptRecord is the prompt of a request.
type promptRecord struct {
	length             int
	hash, conversation uint64
}

// of returns the conversation of a text whose first prompt tokens are its
// prompt, and remembers that prompt.
func (c *conversations) of(text []int32, prompt int) uint64 {
	hash, longest, found := uint64(fnvOffset), 0, uint64(0)
	for n := 0; n < prompt; {
		hash = (hash ^ uint64(uint32(text[n]))) * fnvPrime
		n++
		for _, p := range c.recent {
			if p.length == n && p.hash == hash && n > longest {
				longest, found = n, p.conversation
			}
		}
	}
	if longest == 0 {
		found = hash
		for _, token := range text[prompt:] {
			found = (found ^ uint64(uint32(token))) * fnvPrime
		}
	}
	c.recent[c.next] = promptRecord{length: prompt, hash: hash, conversation: found}
	c.next = (c.next + 1) % len(c.recent)
	return found
}

// FNV-1a over tokens.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)
