package llamaserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/chat"
)

// toolChoice says whether an answer calls tools: "auto", "none", "required", or the name
// of the tool to call.
type toolChoice struct{ mode, name string }

// UnmarshalJSON implements [json.Unmarshaler].
func (t *toolChoice) UnmarshalJSON(raw []byte) error {
	var named struct {
		Function struct{ Name string }
	}
	switch {
	case string(raw) == "null":
		return nil
	case raw[0] == '"':
		if err := json.Unmarshal(raw, &t.mode); err != nil {
			return err
		}
		if !slices.Contains([]string{"auto", "none", "required"}, t.mode) {
			return refuse(http.StatusBadRequest, "tool_choice is %q: want auto, none, required or a function", t.mode)
		}
		return nil
	case json.Unmarshal(raw, &named) != nil || named.Function.Name == "":
		return refuse(http.StatusBadRequest, "tool_choice must be auto, none, required or a function with its name")
	}
	t.mode, t.name = "required", named.Function.Name
	return nil
}

// forced returns the JSON schema of an answer that must call a tool: an object with the
// name and the arguments of one tool.
func (t *toolChoice) forced(tools []chat.Tool) (json.RawMessage, error) {
	var calls []any
	definitions := map[string]any{}
	for i, tool := range tools {
		if t.name != "" && tool.Name != t.name {
			continue
		}
		var parameters map[string]any
		if err := json.Unmarshal(tool.Parameters, &parameters); err != nil {
			return nil, refuse(http.StatusBadRequest, "the parameters of the tool %q are not a JSON schema: %v", tool.Name, err)
		}
		if parameters["type"] == nil {
			parameters["type"] = "object"
		}
		// A reference in the parameters starts at the root of the parameters, which
		// move into $defs.
		place := "tool" + strconv.Itoa(i)
		move(parameters, "#/$defs/"+place)
		definitions[place] = parameters
		calls = append(calls, map[string]any{
			"type":       "object",
			"properties": ordered{{"name", map[string]any{"const": tool.Name}}, {"arguments", map[string]any{"$ref": "#/$defs/" + place}}},
			"required":   []string{"name", "arguments"}, "additionalProperties": false,
		})
	}
	if len(calls) == 0 {
		return nil, refuse(http.StatusBadRequest, "tool_choice requires the tool %q, which is not among the tools of the request", t.name)
	}
	return json.Marshal(map[string]any{"anyOf": calls, "$defs": definitions})
}

// ordered is a JSON object that keeps the order of its members. Package llamaserver uses
// only constant names of members, which contain no character that JSON must escape.
type ordered []struct {
	name  string
	value any
}

// MarshalJSON implements [json.Marshaler].
func (o ordered) MarshalJSON() ([]byte, error) {
	var members []string
	for _, m := range o {
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		members = append(members, strconv.Quote(m.name)+":"+string(value))
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

// move changes the references in a schema that becomes the part `place` of another
// schema.
func move(v any, place string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if ref, ok := value.(string); ok && key == "$ref" && strings.HasPrefix(ref, "#") {
				v[key] = place + ref[1:]
			}
			move(value, place)
		}
	case []any:
		for _, item := range v {
			move(item, place)
		}
	}
}
