package config

// shortRunes is what people read of a value before they know which is meant.
const shortRunes = 80

// Short is a value as errors show it: one that is longer than people read, such as
// a file that was given in place of its name, is cut.
func Short(value string) string {
	n := 0
	for at := range value {
		if n++; n > shortRunes {
			return value[:at] + "…"
		}
	}
	return value
}
