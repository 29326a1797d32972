package draft

// conversations tells which requests belong together, so that a conversation
// can be forgotten as a whole: a request whose prompt begins with an earlier
// one's goes on with it. It knows the latest ones of this process; a request
// that it cannot place begins a conversation of its own.
type conversations struct {
	recent [64]prompted
	next   int
}

// prompted is the prompt of a request.
type prompted struct {
	length             int
	hash, conversation uint64
}

// of returns the conversation of a text that begins with a prompt of so many
// tokens, and remembers it.
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
	c.recent[c.next] = prompted{length: prompt, hash: hash, conversation: found}
	c.next = (c.next + 1) % len(c.recent)
	return found
}

// FNV-1a over tokens.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)
