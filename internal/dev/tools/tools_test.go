package tools

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start returns the addresses of the tools, and the folder of the postcards.
func start(t *testing.T) (urls map[string]string, folder string) {
	folder = filepath.Join(t.TempDir(), "postcards")
	server, err := Start(folder)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	var file struct{ Tools []struct{ Name, URL string } }
	require.NoError(t, json.Unmarshal(server.Declarations(), &file))
	urls = map[string]string{}
	for _, tool := range file.Tools {
		urls[tool.Name] = tool.URL
	}
	return urls, folder
}

func call(t *testing.T, url, key, token, arguments string) (int, string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(arguments))
	require.NoError(t, err)
	r.Header.Set("Authorization", token)
	r.Header.Set("Idempotency-Key", key)
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, strings.TrimSpace(string(raw))
}

const token = "Bearer eyJ"

func TestTheSameKeyRollsTheSameDice(t *testing.T) {
	t.Parallel()
	urls, _ := start(t)
	status, first := call(t, urls["roll_dice"], "m:1", token, `{"count":20,"sides":100}`)
	_, again := call(t, urls["roll_dice"], "m:1", token, `{"count":20,"sides":100}`)
	_, other := call(t, urls["roll_dice"], "m:2", token, `{"count":20,"sides":100}`)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, other)
	_, one := call(t, urls["roll_dice"], "m:3", token, `{}`)
	assert.Regexp(t, `^{"total":[1-6]}$`, one)
}

func TestAPostcardIsWrittenOnce(t *testing.T) {
	t.Parallel()
	urls, folder := start(t)
	const card = `{"to":"Anna","text":"Hi"}`
	_, first := call(t, urls["send_postcard"], "m:1", token, card)
	_, again := call(t, urls["send_postcard"], "m:1", token, card)
	assert.Equal(t, first, again)
	written, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.Len(t, written, 1)
	text, err := os.ReadFile(written[0])
	require.NoError(t, err)
	assert.Equal(t, "To Anna\n\nHi\n", string(text))
}

func TestAPostcardThatCannotBeWrittenIsAFault(t *testing.T) {
	t.Parallel()
	urls, folder := start(t)
	require.NoError(t, os.WriteFile(folder, nil, 0o600))
	status, raw := call(t, urls["send_postcard"], "m:1", token, `{"to":"Anna","text":"Hi"}`)
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Contains(t, raw, "not written")
}

func TestWrongCallsAreRefused(t *testing.T) {
	t.Parallel()
	urls, _ := start(t)
	for name, c := range map[string]struct {
		tool, key, token, arguments string
		status                      int
	}{
		"no token":       {"roll_dice", "k", "", `{}`, http.StatusUnauthorized},
		"an empty one":   {"roll_dice", "k", "Bearer ", `{}`, http.StatusUnauthorized},
		"no key":         {"roll_dice", "", token, `{}`, http.StatusBadRequest},
		"too many dice":  {"roll_dice", "k", token, `{"count":101}`, http.StatusBadRequest},
		"other members":  {"roll_dice", "k", token, `{"colour":"red"}`, http.StatusBadRequest},
		"no JSON":        {"roll_dice", "k", token, `{`, http.StatusBadRequest},
		"no recipient":   {"send_postcard", "k", token, `{"text":"Hi"}`, http.StatusBadRequest},
		"an empty card":  {"send_postcard", "k", token, `{"to":"Jo","text":" "}`, http.StatusBadRequest},
		"too much of it": {"send_postcard", "k", token, `{"to":"Jo","text":"` + strings.Repeat("x", maxArguments) + `"}`, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, raw := call(t, urls[c.tool], c.key, c.token, c.arguments)
			assert.Equal(t, c.status, status)
			assert.Contains(t, raw, `"error":`)
		})
	}
}
