package chat

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

const chatml = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe good<|im_end|>\n' }}{% endif %}" +
	"{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

func TestRenderFormatsLikeHuggingFace(t *testing.T) {
	for _, test := range []struct {
		name, template, want string
		messages             []Message
	}{
		{"chatml", chatml, "<|im_start|>system\nBe good<|im_end|>\n<|im_start|>user\nHi {{x}}<|im_end|>\n<|im_start|>assistant\n", []Message{{Role: "user", Content: "Hi {{x}}"}}},
		{"system message", chatml, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n", []Message{{Role: "system", Content: "S"}, {Role: "user", Content: "U"}}},
		{
			"lines with blocks only", "{{ bos_token }}\n  {% for m in messages %}\n[{{ m.role|upper }}] {{ m.content | trim }}{{ eos_token }}\n  {% endfor %}\n",
			"<s>\n[USER] a</s>\n[ASSISTANT] b</s>\n",
			[]Message{{Role: "user", Content: " a "}, {Role: "assistant", Content: "b"}},
		},
	} {
		tmpl, err := New(test.template, "<s>", "</s>")
		require.NoError(t, err, test.name)
		for range 2 {
			got, err := tmpl.Render(context.Background(), Conversation{Messages: test.messages})
			require.NoError(t, err, test.name)
			require.Equal(t, test.want, got, test.name)
		}
	}
}

func TestTemplatesCannotReadFiles(t *testing.T) {
	for _, source := range []string{"{% include '/etc/passwd' %}", "{% include '../chat.go' %}", "{% extends '/etc/passwd' %}"} {
		tmpl, err := New(source, "", "")
		if err == nil {
			_, err = tmpl.Render(context.Background(), Conversation{Messages: []Message{{Role: "user", Content: "x"}}})
		}
		require.ErrorIs(t, err, ErrTemplate, source)
	}
}

func TestBrokenTemplatesAreErrors(t *testing.T) {
	_, err := New("", "", "")
	require.ErrorIs(t, err, ErrNoTemplate)
	for _, source := range []string{"{% for x %}", "{{ 'unclosed }}", "{{ raise_exception('only users') }}", "{%for a in 0%0%}{%endfor%}"} {
		tmpl, err := New(source, "", "")
		if err == nil {
			_, err = tmpl.Render(context.Background(), Conversation{Messages: []Message{{Role: "user", Content: "x"}}})
		}
		require.ErrorIs(t, err, ErrTemplate, source)
	}
	tmpl, err := New("{{ raise_exception('only users') }}", "", "")
	require.NoError(t, err)
	_, err = tmpl.Render(context.Background(), Conversation{})
	require.ErrorContains(t, err, "only users")
}
