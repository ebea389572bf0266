package proxies

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// heldFor is how long a proxy is given to send on what it should not hold. A slower machine makes these tests find less, never
// fail.
const heldFor = time.Second

// These are the reasons of docs/deploy.md: with each of these settings a stream breaks in the way that the page tells.
func TestSettingsThatHoldWordsBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind    kind
		changes []string
	}{
		"nginx that does not obey the server": {nginx, []string{"proxy_http_version 1.1;", "proxy_ignore_headers X-Accel-Buffering;"}},
		"Caddy that compresses streams": {caddy, []string{"\tencode gzip {\n\t\tmatch {\n\t\t\theader Content-Type application/json*\n\t\t}\n\t}\n",
			"\tencode gzip\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			phone := r.behind(c.kind, c.changes...)
			// A proxy that was not given the processor for as long as the words took has them all at once.
			for try := 1; !r.isHeldBack(phone, fmt.Sprintf("Speak, %d.", try)); try++ {
				require.True(t, try != 3, "it held nothing back")
			}
		})
	}
}

// isHeldBack reports whether the reply to a message arrives only at its end.
func (r *rig) isHeldBack(phone testkit.Client, content string) bool {
	r.t.Helper()
	const words, lastWord = 7, "viel "
	release := r.holdAfter(content, words, 200*time.Millisecond)
	heard, direct := make(chan error, 1), make(chan error, 1)
	go func() { heard <- listen(phone, content, lastWord) }()
	go func() { direct <- listen(r.direct, content, lastWord) }() // the same message id: it joins
	require.NoError(r.t, testkit.Receive(r.t, "the server speaks", direct))
	select {
	case err := <-heard:
		require.NoError(r.t, err)
		return false
	case <-time.After(heldFor):
	}
	release()
	require.NoError(r.t, testkit.Receive(r.t, "it is sent at the end", heard))
	return true
}

// listen sends a message and reads its reply up to a word.
func listen(c testkit.Client, content, word string) error {
	body := testkit.Body{"content": content, "client_message_id": uuid.NewSHA1(uuid.NameSpaceURL, []byte(content)).String()}
	request := c.Request(c.T.Context(), http.MethodPost, "/v1/message/first", body, compressed...)
	response, err := cmp.Or(c.HTTP, http.DefaultClient).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the rest is of no interest
	text := io.Reader(response.Body)
	if response.Header.Get("Content-Encoding") == "gzip" {
		if text, err = gzip.NewReader(text); err != nil {
			return err
		}
	}
	for lines := bufio.NewScanner(text); lines.Scan(); {
		if strings.Contains(lines.Text(), word) {
			return nil
		}
	}
	return fmt.Errorf("%s: %q was never said", response.Status, word)
}

// A proxy that is less patient than the server's sign of life, of 15 s, cuts silent streams. It leaves a busy machine the time
// to begin one.
func TestImpatientProxiesCutSilentStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind    kind
		changes []string
	}{
		"nginx":   {nginx, []string{"proxy_read_timeout 60s;", "proxy_read_timeout 10s;"}},
		"HAProxy": {haproxy, []string{"timeout server 60s", "timeout server 10s"}},
		"Caddy": {caddy, []string{"\n\treverse_proxy 127.0.0.1:8080",
			"\n\treverse_proxy 127.0.0.1:8080 {\n\t\ttransport http {\n\t\t\tread_timeout 10s\n\t\t}\n\t}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			phone := r.behind(c.kind, c.changes...)
			release := r.hold("Speak.")
			cut := phone.Send("", testkit.Body{"content": "Speak."})
			cut.UntilText(heard)
			_, err := cut.TryRest()
			assert.ErrorIsf(t, err, testkit.ErrCut, "it was not cut: %v", err)
			release()
			got := phone.Resume(cut.ChatID(), "", "Last-Event-ID", cut.LastID()).Rest()
			assert.Equalf(t, spoken, cut.Text+got.Text, "%q and %q", cut.Text, got.Text)
		})
	}
}

// By default nginx speaks HTTP/1.0 to the server, in which the end of a connection is the end of an answer: who is cut off
// believes to have all of it.
func TestNginxHidesACutByDefault(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	phone := r.behind(nginx, "proxy_http_version 1.1;", "")
	r.hold("Speak.")
	cut := phone.Send("", testkit.Body{"content": "Speak."})
	cut.UntilText(heard)
	r.network.Down()
	assert.True(t, endsInOrder(cut), "the cut is seen")
	r.network.Up()
}

// Without its line nginx takes 1 MiB, and refuses in words of its own.
func TestNginxRefusesLargeBodiesByDefault(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	phone := r.behind(nginx, "client_max_body_size 512m;", "")
	got := phone.Call(http.MethodPost, "/v1/chats/import", testkit.Body{"content": strings.Repeat(" ", 2<<20)})
	assert.Truef(t, got.Status == http.StatusRequestEntityTooLarge && got.Code() == "", "%d %s", got.Status, got.Text)
}

// With flush_interval -1 Caddy goes on reading for a client that left.
func TestCaddyHidesThatAClientLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	phone := r.behind(caddy, "\n\treverse_proxy 127.0.0.1:8080", "\n\treverse_proxy 127.0.0.1:8080 {\n\t\tflush_interval -1\n\t}")
	release := r.hold("Speak.")
	left := phone.Send("", testkit.Body{"content": "Speak."})
	left.UntilText(heard)
	left.Close()
	time.Sleep(heldFor)
	assert.Contains(t, r.direct.Call(http.MethodGet, "/metrics", nil).Text,
		"throughline_open_streams 1\n", "it was noticed")
	release()
	r.awaitStreams(0)
}
