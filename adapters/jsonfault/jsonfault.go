// Package jsonfault reads JSON that people wrote and says in their words what is
// wrong with it.
//
// encoding/json names Go's types and struct fields in its errors, which mean
// nothing to who wrote the file. This package names the field as the file has it,
// what stands there and what is wanted; the file and the line are the caller's to
// name. It decides nothing about what is accepted: that is encoding/json's.
package jsonfault

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Unmarshal is encoding/json's, with an error in words.
func Unmarshal(data []byte, v any) error { return Say(json.Unmarshal(data, v)) }

// Say puts an error of encoding/json, nil among them, into words. The original
// stays in its chain; other errors stay as they are.
func Say(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		where := "it is"
		if kind.Field != "" {
			where = fmt.Sprintf("%q is", kind.Field)
		}
		return &fault{fmt.Sprintf("%s %s: %s wanted", where, found(kind.Value), wanted(kind.Type)), err}
	case errors.As(err, &syntax):
		return &fault{fmt.Sprintf("no JSON behind byte %d: %v", syntax.Offset, syntax), err}
	}
	return err
}

// fault says of an error what its own text does not.
type fault struct {
	text  string
	cause error
}

func (f *fault) Error() string { return f.text }

func (f *fault) Unwrap() error { return f.cause }

// found names what stands in the file; of a number that does not fit the package
// tells which.
func found(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "number":
		return "a number"
	}
	return "the " + value
}

// wanted names what a Go type takes.
func wanted(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := t.Kind(); {
	case kind == reflect.Slice, kind == reflect.Array:
		return "a list"
	case kind == reflect.Struct, kind == reflect.Map:
		return "an object"
	case kind == reflect.String:
		return "a text"
	case kind == reflect.Bool:
		return "true or false"
	case strings.HasPrefix(kind.String(), "float"):
		return "a number"
	}
	return fmt.Sprintf("a whole number that %d bits hold", t.Bits())
}
