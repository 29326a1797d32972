package enable

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
)

// digestOf returns the name that Ollama gives to a blob.
func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// The method `names` returns the names of all models in Ollama.
func (c client) names(ctx context.Context) ([]string, error) {
	var answer struct{ Models []struct{ Name string } }
	if err := c.call(ctx, http.MethodGet, "/api/tags", nil, &answer); err != nil {
		return nil, err
	}
	names := make([]string, len(answer.Models))
	for i, m := range answer.Models {
		names[i] = m.Name
	}
	return names, nil
}

// hasBlob reports whether Ollama stores a blob.
func (c client) hasBlob(ctx context.Context, digest string) (bool, error) {
	body, err := c.send(ctx, http.MethodHead, "/api/blobs/"+digest, nil)
	if hasStatus(err, http.StatusNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, body.Close()
}

// upload stores a blob in Ollama's store.
func (c client) upload(ctx context.Context, content []byte) error {
	body, err := c.send(ctx, http.MethodPost, "/api/blobs/"+digestOf(content), bytes.NewReader(content))
	if err != nil {
		return err
	}
	return body.Close()
}

// create makes a model from the layers of another model and from an adapter. Before a call
// of create, Ollama must have stored the adapter's blob.
func (c client) create(ctx context.Context, name, from, adapter string) error {
	return c.stream(ctx, "/api/create", map[string]any{
		"model": name, "from": from, "adapters": map[string]string{"npu.gguf": adapter},
	})
}

// The method `remove` deletes a model in Ollama; Ollama then also deletes the blobs that no
// other model uses. For a model that does not exist, `remove` returns nil.
func (c client) remove(ctx context.Context, name string) error {
	err := c.call(ctx, http.MethodDelete, "/api/delete", map[string]any{"model": name}, nil)
	if hasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// The method `ask` requests a chat answer of one token, so that Ollama loads the model.
func (c client) ask(ctx context.Context, name string) error {
	return c.stream(ctx, "/api/chat", map[string]any{
		"model":    name,
		"messages": []map[string]any{{"role": "user", "content": "Hello"}},
		"options":  map[string]any{"num_predict": 1},
	})
}

// unload makes Ollama end the process that runs a model.
func (c client) unload(ctx context.Context, name string) error {
	return c.stream(ctx, "/api/generate", map[string]any{"model": name, "keep_alive": 0})
}
