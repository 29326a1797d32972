package memo

import (
	"context"
	"fmt"
)

// Answer holds the largest logits after a text, the largest first, and the probability of the
// first token at temperature 1.
type Answer struct {
	IDs    []int32   `json:"ids"`
	Logits []float32 `json:"logits"`
	Share  float32   `json:"share"`
}

// Source gives a device its answers.
type Source interface {
	// Answers returns the answers after the given texts. added holds the nodes that the device's
	// tree has got since the last call, in order.
	Answers(ctx context.Context, added []Node, texts []int32) ([]Answer, error)
}

// Computer computes answers with a model.
type Computer interface {
	Compute(ctx context.Context, t *Texts, texts []int32) (map[int32]Answer, error)
}

// Memory holds the answers of one model. It asks its computer only for answers that it does not
// know. A Memory serves one goroutine.
type Memory struct {
	computer Computer
	texts    *Texts
	answers  map[int32]Answer
}

// NewMemory returns an empty memory.
func NewMemory(c Computer) *Memory {
	return &Memory{computer: c, texts: NewTexts(), answers: make(map[int32]Answer)}
}

// Session answers the questions of one device. It implements [Source].
type Session struct {
	memory *Memory
	own    []int32 // own maps the numbers of the device's texts to those of the memory
}

// Session returns a source of answers for a new device.
func (m *Memory) Session() *Session { return &Session{m, []int32{0}} }

// Answers implements [Source].
func (s *Session) Answers(ctx context.Context, added []Node, texts []int32) ([]Answer, error) {
	m := s.memory
	for _, n := range added {
		if n.Parent < 0 || int(n.Parent) >= len(s.own) {
			return nil, fmt.Errorf("memo: text %d continues the unknown text %d", len(s.own), n.Parent)
		}
		s.own = append(s.own, m.texts.Add(s.own[n.Parent], n.Token))
	}
	var missing []int32
	for _, text := range texts {
		if text < 1 || int(text) >= len(s.own) {
			return nil, fmt.Errorf("memo: question about the unknown text %d", text)
		}
		if _, known := m.answers[s.own[text]]; !known {
			missing = append(missing, s.own[text])
		}
	}
	if len(missing) > 0 {
		computed, err := m.computer.Compute(ctx, m.texts, missing)
		if err != nil {
			return nil, fmt.Errorf("memo: %w", err)
		}
		for text, a := range computed {
			m.answers[text] = a
		}
	}
	list := make([]Answer, len(texts))
	for i, text := range texts {
		a, ok := m.answers[s.own[text]]
		if !ok {
			return nil, fmt.Errorf("memo: text %d was not computed", text)
		}
		list[i] = a
	}
	return list, nil
}
