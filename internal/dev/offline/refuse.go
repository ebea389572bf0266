package offline

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const invalidRequest = "invalid_request_error"

// apiError is an error in the API's shape: {"error": {"message", "type", "param", "code"}}.
type apiError struct {
	Status  int
	Message string
	Type    string
	// Param and Code are null on the wire when empty.
	Param, Code string
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message)
}

// bad is the error for a request that the API does not accept.
func bad(code, param, format string, args ...any) *apiError {
	return &apiError{
		Status:  http.StatusBadRequest,
		Message: fmt.Sprintf(format, args...),
		Type:    invalidRequest,
		Param:   param,
		Code:    code,
	}
}

// Refusal is a malformed request and the error it was answered with. Requested faults are not refusals.
type Refusal struct {
	At           time.Time
	Method, Path string
	Status       int
	Message      string
	// Param and Code are "" where the API says null.
	Param, Code string
	// Excerpt is the beginning of the body, at most 300 bytes.
	Excerpt string
}

// refuse records a malformed request and answers it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, body []byte, e *apiError) {
	s.journal.refused(Refusal{
		At:      time.Now(),
		Method:  r.Method,
		Path:    r.URL.Path,
		Status:  e.Status,
		Message: e.Message,
		Param:   e.Param,
		Code:    e.Code,
		Excerpt: string(body[:min(len(body), 300)]),
	})
	s.log.Debug("offline model refused a request", "path", r.URL.Path, "status", e.Status, "param", e.Param, "code", e.Code)
	s.sendError(w, e)
}

func (s *Server) sendError(w http.ResponseWriter, e *apiError) {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	s.sendJSON(w, e.Status, map[string]detail{"error": {e.Message, e.Type, orNull(e.Param), orNull(e.Code)}})
}

// sendJSON writes one JSON answer. A failed write means that the caller is gone; it is only logged.
func (s *Server) sendJSON(w http.ResponseWriter, status int, value any) {
	payload, err := json.Marshal(value)
	if err != nil {
		s.log.Error("offline model cannot encode its answer", "error", err)
		status, payload = http.StatusInternalServerError, []byte(`{"error":{"message":"The answer cannot be `+
			`encoded.","type":"server_error","param":null,"code":null}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(payload); err != nil {
		s.log.Debug("offline model: the caller is gone", "error", err)
	}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
