package httpapi

import "testing"

func TestPrefersJSON(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"text/event-stream":                   false,
		"text/*":                              false,
		"text/html":                           false,
		"application/json":                    true,
		"Application/JSON":                    true,
		"application/json; charset=utf-8":     true,
		"application/*":                       true,
		"application/json, text/plain, */*":   true, // what axios sends
		"application/json, text/event-stream": false,
		"text/event-stream, application/json": false,
		"application/json, text/event-stream;q=0.9":      true,
		"application/json;q=0.5, text/event-stream;q=.6": false,
		"application/json;q=0":                           false,
		"application/json;q=0, */*":                      false,
		"text/event-stream;q=0, */*":                     true,
		"application/json;q=0.1, */*;q=0.2":              false,
		"application/json;q=2":                           false,
		"application/json;q=NaN":                         false,
		"application/json;q=x":                           false,
		",;,/,application/json":                          true,
	} {
		if got := prefersJSON([]string{accept}); got != want {
			t.Errorf("%q: %v, want %v", accept, got, want)
		}
	}
	if !prefersJSON([]string{"text/plain", "application/json"}) {
		t.Error("two headers are one list")
	}
	if prefersJSON(nil) {
		t.Error("no header means events")
	}
}
