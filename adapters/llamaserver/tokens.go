package llamaserver

import "net/http"

// tokenize answers /tokenize. Control tokens in the text are recognised unless
// the request says otherwise; BOS is added only when it asks.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request, m Model) error {
	body := struct {
		Content      string `json:"content"`
		AddSpecial   bool   `json:"add_special"`
		ParseSpecial bool   `json:"parse_special"`
	}{ParseSpecial: true}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	ids, err := encode(m, body.Content, body.AddSpecial, body.ParseSpecial)
	if err != nil {
		return err
	}
	if ids == nil {
		ids = []int32{} // the host wants a list, not null
	}
	writeJSON(w, http.StatusOK, map[string][]int32{"tokens": ids})
	return nil
}

// detokenize answers /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request, m Model) error {
	var body struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if err := checkTokens(body.Tokens, m); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]string{"content": m.Decode(body.Tokens)})
	return nil
}
