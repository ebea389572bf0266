package llm

import (
	"io"
	"net/http"
	"sync"
)

// releasingTransport releases a request's body as soon as it is sent. net/http itself holds the request until the
// response ends, which for a reply takes minutes, and the prompt would be most of a running reply's memory.
type releasingTransport struct{ *http.Transport }

// RoundTrip sends the request. Its body can be sent again, as net/http does when a connection turns out to be
// closed, only until the response has begun.
func (t releasingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.GetBody == nil {
		return t.Transport.RoundTrip(request)
	}
	again := &bodySource{open: request.GetBody}
	defer again.release()
	ours := request.Clone(request.Context())
	ours.Body, ours.GetBody = &sentBody{body: request.Body}, again.body
	return t.Transport.RoundTrip(ours)
}

// bodySource makes new copies of a body until it is released.
type bodySource struct {
	mu   sync.Mutex
	open func() (io.ReadCloser, error)
}

func (s *bodySource) body() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil, http.ErrBodyReadAfterClose
	}
	body, err := s.open()
	return &sentBody{body: body}, err
}

func (s *bodySource) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil
}

// sentBody releases a body once it is read to its end or closed.
type sentBody struct {
	mu   sync.Mutex
	body io.ReadCloser
}

func (s *sentBody) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.body.Read(p)
	if err != nil {
		_ = s.body.Close() // it is read, or broken
		s.body = http.NoBody
	}
	return n, err
}

func (s *sentBody) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := s.body
	s.body = http.NoBody
	return body.Close()
}
