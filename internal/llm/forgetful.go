package llm

import (
	"io"
	"net/http"
	"sync"
)

// forgetful is a transport that lets go of a request's body as soon as it is sent. net/http keeps the
// request until the answer's end, which for a reply is minutes, and a prompt is the largest thing that
// a running reply would hold.
type forgetful struct{ *http.Transport }

// RoundTrip sends the request with a body that can be read again only until the answer has begun.
func (f forgetful) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.GetBody == nil {
		return f.Transport.RoundTrip(request)
	}
	again := &source{open: request.GetBody}
	defer again.forget()
	ours := request.Clone(request.Context())
	ours.Body, ours.GetBody = &sent{body: request.Body}, again.body
	return f.Transport.RoundTrip(ours)
}

// source makes a body anew until it is told to forget how.
type source struct {
	mu   sync.Mutex
	open func() (io.ReadCloser, error)
}

func (s *source) body() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil, http.ErrBodyReadAfterClose
	}
	body, err := s.open()
	return &sent{body: body}, err
}

func (s *source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil
}

// sent is a body that forgets itself once it was read or closed.
type sent struct {
	mu   sync.Mutex
	body io.ReadCloser
}

func (s *sent) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.body == nil {
		return 0, io.EOF
	}
	n, err := s.body.Read(p)
	if err != nil {
		_ = s.body.Close() // it is read, or broken
		s.body = nil
	}
	return n, err
}

func (s *sent) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.body == nil {
		return nil
	}
	body := s.body
	s.body = nil
	return body.Close()
}
