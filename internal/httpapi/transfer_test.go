package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

const twoLines = `{"role":"user","content":"How do I practise scales?"}
{"role":"assistant","content":"Slowly."}
`

func (k keeper) importFile(file string, headers ...string) answered {
	k.t.Helper()
	return k.call(http.MethodPost, "/v1/chats/import", file, headers...)
}

// imported imports a file that nothing is wrong with and gives its first chat.
func (k keeper) imported(file string) uuid.UUID {
	k.t.Helper()
	answer := k.importFile(file)
	var result transfer.Result
	require.Truef(k.t, answer.status == http.StatusOK, "%d %s", answer.status, answer.body)
	answer.decode(k.t, &result)
	return result.Chats[0].ChatID
}

func TestImportAnswersWithEachChat(t *testing.T) {
	t.Parallel()
	f := newKeeper(t)
	for i, kind := range importTypes {
		answer := f.importFile(twoLines, "Content-Type", kind+"; charset=utf-8")
		var result transfer.Result
		answer.decode(t, &result)
		if answer.status != http.StatusOK || len(result.Chats) != 1 || result.Chats[0].Title != "How do I practise scales?" || result.Imported+result.Skipped != 1 {
			t.Errorf("%s: %d %s", kind, answer.status, answer.body)
		}
		assert.Equalf(t, (i > 0), result.Chats[0].Skipped, "%s: skipped", kind)
	}
	if answer := f.importFile("[]"); answer.status != http.StatusOK || !strings.Contains(string(answer.body), `"chats":[]`) {
		t.Errorf("no chats: %d %s", answer.status, answer.body)
	}
}

// endless gives so many spaces.
func endless(n int64) io.Reader { return io.LimitReader(spaces{}, n) }

type spaces struct{}

func (spaces) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = ' '
	}
	return len(into), nil
}

// listen imports a file and reads its events.
func (k keeper) listen(body io.Reader) *openStream {
	k.t.Helper()
	request := k.request(http.MethodPost, "/v1/chats/import", "x", "Accept", "text/event-stream")
	request.Body, request.ContentLength = io.NopCloser(body), -1
	s := k.open(request)
	padding := s.next()
	assert.Truef(k.t, len(padding) >= 1024 && padding[0] == ':', "the padding is %q", padding)
	return s
}

// imports reads one event of an import.
func (s *openStream) imports() (name, data string) {
	for {
		if block, found := strings.CutPrefix(s.next(), "event: "); found {
			name, data, _ = strings.Cut(block, "\ndata: ")
			return name, data
		}
	}
}

// progress gives the progress up to the last event, and that one.
func (s *openStream) progress() (progress []transfer.Progress, name, data string) {
	s.t.Helper()
	for {
		name, data = s.imports()
		if name != eventImportProgress {
			return progress, name, data
		}
		checkSchema(s.t, "ImportProgress", []byte(data))
		var found transfer.Progress
		require.NoError(s.t, json.Unmarshal([]byte(data), &found))
		progress = append(progress, found)
	}
}

// The events come while the file is still being sent.
func TestImportTellsItsProgress(t *testing.T) {
	t.Parallel()
	f := newKeeper(t)
	body, send := io.Pipe()
	h := f.listen(body)
	if name, data := h.imports(); name != eventImportProgress || !strings.Contains(data, `"phase":"receiving","bytes":0`) {
		t.Errorf("%s %s", name, data)
	}
	go func() {
		_, _ = io.WriteString(send, twoLines)
		_ = send.Close()
	}()
	progress, name, data := h.progress()
	var phases []transfer.Phase
	for _, at := range progress {
		if len(phases) == 0 || phases[len(phases)-1] != at.Phase {
			phases = append(phases, at.Phase)
		}
	}
	assert.Truef(t, strings.HasSuffix(fmt.Sprint(phases), "checking writing]") && progress[len(progress)-1].TotalMessages == 2,
		"%+v", progress)
	checkSchema(t, "ImportResult", []byte(data))
	assert.Truef(t, name == eventImportCompleted && strings.Contains(data, `"messages":2`), "%s %s", name, data)
	after, err := io.ReadAll(h.reader)
	assert.Truef(t, len(after) == 0 && err == nil && h.response.Header.Get("Content-Type") == "text/event-stream; charset=utf-8",
		"%s follows, %v", after, h.response.Header)
	got := testkit.Ask[int](t, f.pool, "select count(*) from messages where user_id = $1", f.user)
	assert.Truef(t, got == 2, "%d messages", got)
	if got := f.openStreams(); got != 0 {
		t.Errorf("%v streams are open", got)
	}
}

// What is wrong with a file is a status for who wants JSON, and an event for who listens.
func TestImportTellsOfItsFailure(t *testing.T) {
	t.Parallel()
	f := newKeeper(t)
	for reason, body := range map[string]func() io.Reader{
		"import_invalid": func() io.Reader { return strings.NewReader(twoLines + "{}") }, "body_too_large": func() io.Reader { return endless(maxImport + 1) },
	} {
		_, name, data := f.listen(body()).progress()
		checkSchema(t, "Error", []byte(data))
		assert.Truef(t, name == eventImportFailed && errorCode([]byte(data)) == reason, "%s: %s %s", reason, name, data)
		request := f.request(http.MethodPost, "/v1/chats/import", "x", "Accept", "text/event-stream;q=0.5, application/json")
		request.Body, request.ContentLength = io.NopCloser(body()), -1
		if answer := f.do(request, "x"); answer.error(t).Code != reason {
			t.Errorf("%s: %d %s", reason, answer.status, answer.body)
		}
	}
	told := f.request(http.MethodPost, "/v1/chats/import", "x")
	told.Body, told.ContentLength = io.NopCloser(endless(maxImport+1)), maxImport+1
	if answer := f.do(told, "x"); answer.status != http.StatusRequestEntityTooLarge || answer.error(t).Details["max_bytes"] != float64(maxImport) {
		t.Errorf("of a length that was told: %d %s", answer.status, answer.body)
	}
	if answer := f.importFile(twoLines, "Content-Type", "application/zip"); answer.error(t).Code != "unsupported_media_type" {
		t.Errorf("%d %s", answer.status, answer.body)
	}
	got := testkit.Ask[int](t, f.pool, "select count(*) from chats")
	assert.Truef(t, got == 0, "%d chats", got)
}

// A client that goes away while it sends leaves nothing behind, and gives its place back.
func TestImportOfAClientThatGoesAway(t *testing.T) {
	t.Parallel()
	f := newKeeper(t, func(config *Config) { config.MaxStreamsPerUser = 1 })
	body, send := io.Pipe()
	h := f.listen(body)
	_, _ = io.WriteString(send, twoLines)
	answer := f.importFile(twoLines)
	assert.Truef(t, answer.status == http.StatusTooManyRequests && answer.error(t).Details["max_streams"] == 1.0,
		"a second import: %d %s", answer.status, answer.body)
	_ = send.CloseWithError(errors.New("gone"))
	_ = h.response.Body.Close()
	f.waitFor("the place is free", func() bool { return f.places() == 0 })
	got := testkit.Ask[int](t, f.pool, "select count(*) from chats")
	assert.Truef(t, got == 0, "%d chats", got)
	f.imported(twoLines)
}

func TestExportIsAFile(t *testing.T) {
	t.Parallel()
	f := newKeeper(t)
	chatID := f.imported(strings.Replace(twoLines, "How do", `../\"Ünï\r\n; How do`, 1))
	for format, want := range map[string]struct{ kind, extension, begins string }{
		"":                 {"application/x-ndjson", "jsonl", `{"type":"bundle","format":"throughline","version":1,`},
		"?format=jsonl":    {"application/x-ndjson", "jsonl", `{"type":"bundle","format":"throughline","version":1,`},
		"?format=json":     {"application/json", "json", `{"format":"throughline","version":1,`},
		"?format=markdown": {"text/markdown; charset=utf-8", "md", "# "},
	} {
		answer := f.call(http.MethodGet, "/v1/chats/"+chatID.String()+"/export"+format, "")
		assert.Truef(t, answer.status == http.StatusOK && answer.header.Get("Content-Type") == want.kind && strings.HasPrefix(string(answer.body), want.begins),
			"%s: %d %v %s", format, answer.status, answer.header, answer.body)
		name := fmt.Sprintf(`attachment; filename="chat-n-%s.%s"`, chatID.String()[:8], want.extension)
		assert.Equal(t, name, answer.header.Get("Content-Disposition"))
	}
}

// brokenStore is a store that fails after some messages.
type brokenStore struct {
	transfer.Store
	after int
}

type brokenParts struct {
	transfer.Parts
	left int
}

func (b brokenStore) ExportChat(ctx context.Context, user auth.Principal, chatID uuid.UUID) (bundle.Chat, transfer.Parts, error) {
	chat, parts, err := b.Store.ExportChat(ctx, user, chatID)
	return chat, &brokenParts{parts, b.after}, err
}

func (b *brokenParts) Messages(ctx context.Context, take func(bundle.Record) error) error {
	return b.Parts.Messages(ctx, func(record bundle.Record) error {
		if b.left--; b.left < 0 {
			return errors.New("the second page is gone")
		}
		return take(record)
	})
}

func TestExportsNameTakesNothingOdd(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"": "chat-0198a1f2", "Scales & Arpeggios!": "chat-scales-arpeggios-0198a1f2", "日本語": "chat-0198a1f2", "a/../b\r\n\"": "chat-a-b-0198a1f2",
		strings.Repeat("long ", 20): "chat-long-long-long-long-long-long-long-0198a1f2",
	} {
		assert.Equalf(t, want, exportName(&transfer.Export{Chat: bundle.Chat{ID: exampleChat, Title: title}}), "%q", title)
	}
}

func TestAnAccountGoesOutAndComesIn(t *testing.T) {
	t.Parallel()
	f := newKeeper(t)
	f.imported(twoLines)
	file := f.call(http.MethodGet, "/v1/export", "")
	name := file.header.Get("Content-Disposition")
	if file.status != http.StatusOK || file.header.Get("Content-Type") != mediaLines || file.header.Get("Cache-Control") != "no-store" ||
		!strings.HasPrefix(name, `attachment; filename="throughline-`) || !strings.HasSuffix(string(file.body), `"relationships":0}`+"\n") {
		t.Fatalf("%d %v %s", file.status, file.header, file.body)
	}
	done := f.call(http.MethodPost, "/v1/import", string(file.body), "Content-Type", mediaLines)
	assert.Truef(t, done.status == http.StatusOK && strings.Contains(string(done.body), `"imported":0,"skipped":1`),
		"%d %s", done.status, done.body)
	events := f.call(http.MethodPost, "/v1/import", string(file.body), "Content-Type", mediaLines, "Accept", "text/event-stream")
	assert.Containsf(t, string(events.body), "event: import.completed", "%s", events.body)
	cut := f.call(http.MethodPost, "/v1/import", string(file.body[:len(file.body)-3]), "Content-Type", mediaLines)
	failure := cut.error(t)
	assert.Truef(t, failure.Code == "import_invalid" && failure.Details["reason"] == "bad_json", "%s", cut.body)
}

// failingSnapshots break off after the account.
type failingSnapshots struct {
	transfer.Store
	with error
}

func (f failingSnapshots) Snapshot(ctx context.Context, user auth.Principal, read func(transfer.Snapshot) error) error {
	return f.Store.Snapshot(ctx, user, func(all transfer.Snapshot) error { return read(failingSnapshot{all, f.with}) })
}

type failingSnapshot struct {
	transfer.Snapshot
	with error
}

func (f failingSnapshot) Memories(context.Context, func(bundle.Record) error) error { return f.with }

// A client that takes nothing is cut, and the log names the limit.
func TestExportThatIsNotTaken(t *testing.T) {
	t.Parallel()
	f := newKeeper(t, func(c *Config) { c.WriteTimeout = 50 * time.Millisecond })
	f.imported(strings.Repeat(`{"role":"user","content":"`+strings.Repeat("x", 900_000)+`"}`+"\n", 20))
	response, err := f.http.Client().Do(f.request(http.MethodGet, "/v1/export", ""))
	require.NoError(t, err)
	f.waitFor("the place is free", func() bool { return f.places() == 0 })
	_ = response.Body.Close()
	lines := f.logs.Lines(t, "request failed")
	require.NotEmpty(t, lines)
	last := lines[len(lines)-1]
	assert.Contains(t, last["error"], "the client took longer than 50ms for 64 KiB")
	assert.Equal(t, "WARN", last["level"])
}

// Half an export is never taken for a whole one: before the first bytes the answer is an error, later the connection breaks,
// behind a line that says why. A change meanwhile is no failure to the log.
func TestExportThatBreaks(t *testing.T) {
	t.Parallel()
	whole := newKeeper(t)
	pages := strings.ReplaceAll(strings.Repeat(twoLines, 600), "Slowly.", strings.Repeat("slowly ", 100))
	account := func(s transfer.Store) transfer.Store { return failingSnapshots{s, errors.New("the connection broke")} }
	changed := func(s transfer.Store) transfer.Store {
		return failingSnapshots{s, fault.New(fault.NotReady, "changed")}
	}
	for name, c := range map[string]struct {
		file, path string
		store      func(transfer.Store) transfer.Store
		broken     bool // in the middle
	}{
		"a chat at once":   {pages, "", func(s transfer.Store) transfer.Store { return brokenStore{s, 0} }, false},
		"a chat, later":    {pages, "", func(s transfer.Store) transfer.Store { return brokenStore{s, 500} }, true},
		"a small account":  {`{"role":"user","content":"x"}`, "/v1/export", account, false},
		"an account later": {`{"role":"user","content":"` + strings.Repeat("x", 4*exportBuffer) + `"}`, "/v1/export", account, true},
		"a changed one":    {`{"role":"user","content":"` + strings.Repeat("x", 4*exportBuffer) + `"}`, "/v1/export", changed, true},
	} {
		f := whole.in(t)
		chatID, failures := f.imported(c.file), len(f.logs.Lines(t, "request failed"))
		path := cmp.Or(c.path, "/v1/chats/"+chatID.String()+"/export")
		f.server.config.Transfer = transferOf(t, c.store(f.files))
		response, err := f.http.Client().Do(f.request(http.MethodGet, path, ""))
		f.server.config.Transfer = transferOf(t, f.files)
		require.NoError(t, err)
		read, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if !c.broken && (err != nil || response.StatusCode != http.StatusInternalServerError || response.Header.Get("Content-Disposition") != "") ||
			c.broken && (err == nil || response.StatusCode != http.StatusOK) {
			t.Errorf("%s: %d, %d bytes, %v", name, response.StatusCode, len(read), err)
		}
		lines := strings.Split(strings.TrimSpace(string(read)), "\n")
		last := lines[len(lines)-1]
		code := map[bool]string{false: "internal", true: "not_ready"}[name == "a changed one"]
		assert.Truef(t, !c.broken || strings.HasPrefix(last, `{"type":"error","code":"`+code+`","message":"`), "%s ends with %s", name, last)
		assert.Equalf(t, code == "internal", len(f.logs.Lines(t, "request failed")) > failures, "%s: the log of failures", name)
		f.waitFor("the place is free", func() bool { return f.places() == 0 })
	}
}
