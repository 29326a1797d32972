// Package parse splits the text of a chat model into thoughts, content and calls of
// tools, while the text arrives.
//
// Models mark thoughts and calls in different ways. [FormatOf] finds the marks in the
// model's chat template. A call is reported when it is whole. Text that only looks like
// a call stays content.
//
// # Invariant
//
// The joined results do not depend on how the text is cut into pieces.
package parse

import (
	"slices"
	"strings"
)

// Call is a call of a tool.
type Call struct {
	Name string
	// Arguments is a JSON object.
	Arguments string
}

// Delta is the next part of an answer.
type Delta struct {
	Content, Reasoning string
	Calls              []Call
}

func (d *Delta) add(other Delta) {
	d.Content += other.Content
	d.Reasoning += other.Reasoning
	d.Calls = append(d.Calls, other.Calls...)
}

// pair holds the marks at the start and the end of thoughts or calls. An empty end means
// that calls last until the end of the answer.
type pair struct{ start, end string }

// Format describes how a model marks thoughts and calls.
type Format struct {
	think []pair
	calls []pair
	// skipped lists marks around the content, which are no part of it.
	skipped []string
	// bare is set if an answer that is a JSON value can be a call.
	bare bool
}

// FormatOf finds the marks in the text of a chat template. tools says whether the
// conversation has tools.
func FormatOf(template string, tools bool) Format {
	var f Format
	for _, p := range []pair{
		{"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<|START_THINKING|>", "<|END_THINKING|>"}, {"<seed:think>", "</seed:think>"},
	} {
		if strings.Contains(template, p.start) || strings.Contains(template, p.end) {
			f.think = append(f.think, p)
		}
	}
	if strings.Contains(template, "<|START_RESPONSE|>") {
		f.skipped = []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>"}
	}
	if !tools {
		return f
	}
	for _, p := range []pair{
		{"<tool_call>", "</tool_call>"},              // Hermes, Qwen
		{"[TOOL_CALLS]", ""},                         // Mistral
		{"<|python_tag|>", ""},                       // Llama 3
		{"<|tool_call|>", "<|/tool_call|>"},          // Phi 4 mini
		{"functools", ""},                            // Phi 4
		{"<|START_ACTION|>", "<|END_ACTION|>"},       // Command-R 7B
		{"Action:", ""},                              // Command-R
		{"<|tool_call|>", ""},                        // Granite
		{"<|tool_call_start|>", "<|tool_call_end|>"}, // other models write calls as JSON after this mark
		{"<function_call>", "</function_call>"},
	} {
		shown := strings.Contains(template, p.start) && (p.end == "" || strings.Contains(template, p.end))
		known := slices.ContainsFunc(f.calls, func(other pair) bool { return other.start == p.start })
		if shown && !known {
			f.calls = append(f.calls, p)
		}
	}
	// Llama 3 writes calls without marks. Models whose template shows no marks get the
	// generic form, a JSON object.
	f.bare = len(f.calls) == 0 || strings.Contains(template, "<|python_tag|>") || strings.Contains(template, `"parameters": `)
	return f
}

// Forced returns the format of an answer for which the request requires a tool call: a
// grammar then makes the answer a JSON value, without marks.
func Forced() Format { return Format{bare: true} }

// WithoutThoughts returns a copy of f that leaves thoughts in the content.
func (f Format) WithoutThoughts() Format {
	f.think = nil
	return f
}

// Marks returns the marks of a format. Some marks are control tokens of the model, so
// the engine must keep their text in the answer.
func (f Format) Marks() (marks []string) {
	for _, p := range slices.Concat(f.think, f.calls) {
		marks = append(marks, p.start, p.end)
	}
	marks = append(marks, f.skipped...)
	return slices.DeleteFunc(marks, func(mark string) bool { return mark == "" })
}

// None reports whether the whole text is content.
func (f Format) None() bool { return len(f.think)+len(f.calls)+len(f.skipped) == 0 && !f.bare }

// Opened returns the end mark of the thoughts that a prompt has begun, or "".
func (f Format) Opened(prompt string) string {
	prompt = strings.TrimRight(prompt, " \n")
	for _, p := range f.think {
		if strings.HasSuffix(prompt, p.start) {
			return p.end
		}
	}
	return ""
}

// place is the part of an answer that a parser reads now.
type place int

const (
	atStart place = iota // atStart is the place before thoughts and content
	inThoughts
	inContent
	inCall
	inBare // inBare is the place in a JSON value that may be a call
)

// Parser splits one answer.
type Parser struct {
	format Format
	place  place
	text   string // text holds bytes whose meaning depends on later bytes
	end    string // end is the mark that ends the thoughts or the call
	start  string // start is the mark that began the call
	tried  int    // tried counts the bytes of a call in which no end was found
	wrote  bool   // wrote is set if the present part has text
	calls  int
}

// New returns a parser. prompt is the text before the answer.
func New(f Format, prompt string) *Parser {
	p := &Parser{format: f}
	if end := f.Opened(prompt); end != "" {
		p.place, p.end = inThoughts, end
	}
	return p
}

// Add returns the parts that a piece of text completes.
func (p *Parser) Add(text string) Delta {
	p.text += text
	return p.run(false)
}

// Close returns the parts that the end of the answer completes.
func (p *Parser) Close() Delta { return p.run(true) }

// run reads the waiting text as far as its meaning is certain.
func (p *Parser) run(last bool) (out Delta) {
	for {
		before, where := len(p.text), p.place
		switch p.place {
		case atStart:
			p.begin(last)
		case inThoughts:
			out.add(p.thoughts(last))
		case inContent:
			out.add(p.content(last))
		case inCall:
			out.add(p.call(last))
		case inBare:
			if !last {
				return out
			}
			out.add(p.bare())
		}
		if p.place == where && (len(p.text) == before || p.text == "") {
			return out
		}
	}
}

// begin decides what an answer begins with.
func (p *Parser) begin(last bool) {
	trimmed := strings.TrimLeft(p.text, " \t\r\n")
	if trimmed == "" && !last {
		return
	}
	for _, t := range p.format.think {
		if rest, ok := strings.CutPrefix(trimmed, t.start); ok {
			p.place, p.end, p.text, p.wrote = inThoughts, t.end, rest, false
			return
		}
		if !last && strings.HasPrefix(t.start, trimmed) {
			return // the rest of the mark may be in the next piece
		}
	}
	p.place = inContent
	if p.format.bare && trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && !p.marked(trimmed, last) {
		p.place = inBare
	}
}

// marked reports whether a text begins with the mark of a call.
func (p *Parser) marked(text string, last bool) bool {
	return slices.ContainsFunc(p.format.calls, func(c pair) bool {
		return strings.HasPrefix(text, c.start) || !last && strings.HasPrefix(c.start, text)
	})
}

// thoughts reads thoughts. White space around thoughts is dropped.
func (p *Parser) thoughts(last bool) (out Delta) {
	if !p.wrote {
		p.text = strings.TrimLeft(p.text, " \t\r\n")
	}
	text, ended := p.text, false
	if at := strings.Index(text, p.end); at >= 0 {
		text, p.text, ended = text[:at], text[at+len(p.end):], true
	} else {
		text = text[:len(text)-held(text, last, p.end)]
		p.text = p.text[len(text):]
	}
	trimmed := strings.TrimRight(text, " \t\r\n")
	if !ended {
		p.text = text[len(trimmed):] + p.text // white space is kept for now, because the thoughts may end after it
		if last {
			p.text = ""
		}
	}
	out.Reasoning = trimmed
	p.wrote = p.wrote || trimmed != ""
	if ended {
		p.place, p.wrote = afterThoughts(p), false
	}
	return out
}

// afterThoughts drops the white space before the content.
func afterThoughts(p *Parser) place {
	p.format.think = nil
	p.text = strings.TrimLeft(p.text, " \t\r\n")
	return atStart
}

// content reads content up to the next mark.
func (p *Parser) content(last bool) (out Delta) {
	if !p.wrote && (p.format.think == nil || p.calls > 0) {
		p.text = strings.TrimLeft(p.text, " \t\r\n")
	}
	at, mark, found := len(p.text), pair{}, false
	for _, c := range p.format.calls {
		if i := strings.Index(p.text, c.start); i >= 0 && i < at {
			at, mark, found = i, c, true
		}
	}
	for _, s := range p.format.skipped {
		if i := strings.Index(p.text, s); i >= 0 && i < at {
			at, mark, found = i, pair{start: s, end: "skip"}, true
		}
	}
	if !found {
		wait := held(p.text, last, p.format.Marks()...)
		out.Content, p.text = p.text[:len(p.text)-wait], p.text[len(p.text)-wait:]
		if len(p.format.calls) > 0 && !last {
			// White space before a call is no part of the content.
			trimmed := strings.TrimRight(out.Content, " \t\r\n")
			out.Content, p.text = trimmed, out.Content[len(trimmed):]+p.text
		}
		p.wrote = p.wrote || out.Content != ""
		return out
	}
	out.Content, p.text = p.text[:at], p.text[at+len(mark.start):]
	if mark.end == "skip" {
		p.wrote = p.wrote || out.Content != ""
		return out
	}
	out.Content = strings.TrimRight(out.Content, " \t\r\n")
	p.place, p.start, p.end, p.tried = inCall, mark.start, mark.end, 0
	return out
}

// held returns the number of bytes at the end of a text that may begin a mark.
func held(text string, last bool, marks ...string) int {
	if last {
		return 0
	}
	most := 0
	for _, mark := range marks {
		for n := min(len(mark)-1, len(text)); n > most; n-- {
			if strings.HasSuffix(text, mark[:n]) {
				most = n
				break
			}
		}
	}
	return most
}

// maxEnds bounds the end marks that a call may contain in its texts.
const maxEnds = 32

// call reads a call up to its end.
func (p *Parser) call(last bool) (out Delta) {
	for ends := 0; p.end != "" && ends < maxEnds; ends++ {
		at := strings.Index(p.text[min(p.tried, len(p.text)):], p.end)
		if at < 0 {
			break
		}
		at += p.tried
		if calls := read(p.start, p.text[:at]); calls != nil {
			p.text, p.place, p.wrote = p.text[at+len(p.end):], inContent, false
			p.calls += len(calls)
			return Delta{Calls: calls}
		}
		p.tried = at + len(p.end) // this end mark may be inside of a string of the call
	}
	if !last {
		return out
	}
	if calls := read(p.start, strings.TrimSuffix(strings.TrimSpace(p.text), p.end)); calls != nil {
		p.text, p.place = "", inContent
		p.calls += len(calls)
		return Delta{Calls: calls}
	}
	out.Content, p.text, p.place, p.wrote = p.start+p.text, "", inContent, true
	return out
}

// bare reads an answer that begins with a JSON value: its calls, or content if it holds
// none.
func (p *Parser) bare() (out Delta) {
	if calls := read("", p.text); calls != nil {
		p.text, p.place = "", inContent
		p.calls += len(calls)
		return Delta{Calls: calls}
	}
	p.place = inContent
	return out
}
