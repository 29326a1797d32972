package chat_test

import (
	"context"
	"fmt"

	"github.com/sdnpu/sdnpu/adapters/chat"
)

func Example() {
	source := "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
	template, err := chat.New(source, "<s>", "</s>")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := template.Render(context.Background(), chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "Good morning"}}})
	fmt.Println(text, err)
	// Output: <user>Good morning<assistant> <nil>
}
