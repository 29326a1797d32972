package parse

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// read returns the calls in the text that follows a start mark, or nil if the text
// holds no calls.
func read(start, text string) []Call {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "<function="):
		return tagged(text)
	case start == "[TOOL_CALLS]" && strings.Contains(text, "[ARGS]"):
		return named(text)
	case start == "Action:":
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(text, "```json"), "```"))
	case start == "<|python_tag|>" && !strings.HasPrefix(text, "{"):
		return pythonCall(text)
	}
	return values(text)
}

// values reads JSON objects and lists of them, one after another. Llama 3 separates several
// calls with semicolons.
func values(text string) (calls []Call) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimLeft(text, "; \t\r\n") {
		d := json.NewDecoder(strings.NewReader(text))
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil
		}
		text = text[d.InputOffset():]
		found := objects(raw)
		if found == nil {
			return nil
		}
		calls = append(calls, found...)
	}
	return calls
}

// objects reads a call, or a list of calls.
func objects(raw json.RawMessage) (calls []Call) {
	if raw[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return nil
		}
		for _, item := range list {
			found := objects(item)
			if found == nil {
				return nil
			}
			calls = append(calls, found...)
		}
		return calls
	}
	var o struct {
		Name       string
		ToolName   string          `json:"tool_name"`
		Function   json.RawMessage `json:"function"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
		Call       json.RawMessage `json:"tool_call"`
		Calls      json.RawMessage `json:"tool_calls"`
	}
	if raw[0] != '{' || json.Unmarshal(raw, &o) != nil {
		return nil
	}
	name := o.Name + o.ToolName
	if len(o.Function) > 0 && name == "" {
		if o.Function[0] == '{' {
			return objects(o.Function)
		}
		// if the field function is no string, the name stays empty
		_ = json.Unmarshal(o.Function, &name)
	}
	switch {
	case name != "":
		if len(o.Arguments) == 0 {
			o.Arguments = o.Parameters
		}
		if a, ok := arguments(o.Arguments); ok {
			return []Call{{name, a}}
		}
	case len(o.Calls) > 0:
		return objects(o.Calls)
	case len(o.Call) > 0:
		return objects(o.Call)
	}
	return nil
}

// arguments returns the arguments of a call as a JSON object.
func arguments(raw json.RawMessage) (string, bool) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return "", false
		}
		raw = json.RawMessage(strings.TrimSpace(text))
	}
	if len(raw) == 0 || string(raw) == "null" {
		return "{}", true
	}
	var compact bytes.Buffer
	if raw[0] != '{' || json.Compact(&compact, raw) != nil {
		return "", false
	}
	return compact.String(), true
}

// named reads Mistral's newer form, name[ARGS]{…}, one call after another.
func named(text string) (calls []Call) {
	for text = strings.TrimSpace(text); text != ""; {
		text = strings.TrimPrefix(text, "[TOOL_CALLS]")
		name, rest, ok := strings.Cut(text, "[ARGS]")
		if !ok {
			return nil
		}
		name, _, _ = strings.Cut(name, "[CALL_ID]")
		d := json.NewDecoder(strings.NewReader(rest))
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil
		}
		a, ok := arguments(raw)
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil
		}
		calls = append(calls, Call{name, a})
		text = strings.TrimSpace(rest[d.InputOffset():])
	}
	return calls
}

var (
	functionTag  = regexp.MustCompile(`(?s)^<function=([^>\n]+)>(.*?)</function>\s*`)
	parameterTag = regexp.MustCompile(`(?s)^\s*<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*`)
	pythonStart  = regexp.MustCompile(`^([A-Za-z_][\w.]*?)(?:\.call)?\(`)
	keyword      = regexp.MustCompile(`^\s*([A-Za-z_]\w*)\s*=\s*`)
)

// tagged reads Qwen's form with tags. If the text of an argument is valid JSON, the argument is
// the JSON value, and otherwise the text itself.
func tagged(text string) (calls []Call) {
	for text != "" {
		f := functionTag.FindStringSubmatch(text)
		if f == nil {
			return nil
		}
		text = text[len(f[0]):]
		var fields []string
		for body := f[2]; strings.TrimSpace(body) != ""; {
			p := parameterTag.FindStringSubmatch(body)
			if p == nil {
				return nil
			}
			body = body[len(p[0]):]
			value := p[2]
			if !json.Valid([]byte(value)) {
				quoted, _ := json.Marshal(value)
				value = string(quoted)
			}
			key, _ := json.Marshal(p[1])
			fields = append(fields, string(key)+":"+strings.TrimSpace(value))
		}
		if a, ok := arguments(json.RawMessage("{" + strings.Join(fields, ",") + "}")); ok {
			calls = append(calls, Call{f[1], a})
		}
	}
	return calls
}

// pythonCall reads Llama 3's form of built-in tools: name.call(key="value", …).
func pythonCall(text string) []Call {
	f := pythonStart.FindStringSubmatch(text)
	if f == nil || !strings.HasSuffix(text, ")") {
		return nil
	}
	var fields []string
	for rest := text[len(f[0]) : len(text)-1]; strings.TrimSpace(rest) != ""; {
		k := keyword.FindStringSubmatch(rest)
		if k == nil {
			return nil
		}
		d := json.NewDecoder(strings.NewReader(rest[len(k[0]):]))
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil && err != io.EOF { //nolint:errorlint // a decoder returns io.EOF itself
			return nil
		}
		fields = append(fields, `"`+k[1]+`":`+string(raw))
		rest = strings.TrimLeft(rest[len(k[0])+int(d.InputOffset()):], ", \t\n")
	}
	a, ok := arguments(json.RawMessage("{" + strings.Join(fields, ",") + "}"))
	if !ok {
		return nil
	}
	return []Call{{f[1], a}}
}
