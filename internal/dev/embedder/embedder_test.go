package embedder_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// ownerEnv makes the test binary a program that starts an embedder, prints its address and waits.
const ownerEnv = "EMBEDDER_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) != "" {
		e, err := embedder.Start(context.Background(), root, silent)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(e.BaseURL())
		select {}
	}
	testkit.Main(m)
}

// root is the folder whose .local has the packages.
const root = "../../.."

var silent = slog.New(slog.DiscardHandler)

// start runs an embedder for one test.
func start(t *testing.T) *embedder.Embedder {
	e, err := embedder.Start(t.Context(), root, silent)
	require.Truef(t, err == nil, "%v (scripts/setup run)", err)
	t.Cleanup(e.Close)
	return e
}

// client keeps no connections, so that nothing of a test outlives it.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send returns the status and the body of an answer.
func send(ctx context.Context, e *embedder.Embedder, method, path, body string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, e.BaseURL()+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	return response.StatusCode, raw, err
}

// answer is that to a request for vectors.
type answer struct {
	Data []struct {
		Object    string
		Index     int
		Embedding json.RawMessage
	}
	Model string
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

// vectors asks for the vectors of texts, with further parameters.
func vectors(t *testing.T, e *embedder.Embedder, parameters string, texts ...string) answer {
	input, err := json.Marshal(texts)
	require.NoError(t, err)
	body := fmt.Sprintf(`{"model":%q,"input":%s%s}`, embedder.Model, input, parameters)
	status, raw, err := send(t.Context(), e, http.MethodPost, "/embeddings", body)
	var got answer
	require.Truef(t, err == nil && status == http.StatusOK && json.Unmarshal(raw, &got) == nil && len(got.Data) == len(texts),
		"%d, %v: %s", status, err, raw)
	for n, item := range got.Data {
		assert.Truef(t, item.Index == n && item.Object == "embedding", "item %d: %+v", n, item)
	}
	return got
}

// numbers are the vectors of an answer in numbers.
func numbers(t *testing.T, got answer) [][]float32 {
	all := make([][]float32, len(got.Data))
	for n, item := range got.Data {
		require.NoError(t, json.Unmarshal(item.Embedding, &all[n]))
	}
	return all
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestVectorsKnowMeaning(t *testing.T) {
	t.Parallel()
	e := start(t)
	got := vectors(t, e, "", "my dentist", "a molar hurts", "volcano")
	assert.Truef(t, got.Model == embedder.Model && got.Usage.Prompt >= 3 && got.Usage.Total == got.Usage.Prompt, "%+v", got)
	all := numbers(t, got)
	for n, vector := range all {
		length := dot(vector, vector)
		assert.Truef(t, len(vector) == 512 && math.Abs(length-1) <= 1e-5,
			"vector %d has %d numbers and the length %f", n, len(vector), length)
	}
	near, far := dot(all[0], all[1]), dot(all[0], all[2])
	assert.Truef(t, near >= far+0.2, "a dentist is as near to a molar (%.2f) as to a volcano (%.2f)", near, far)
	alone := numbers(t, vectors(t, e, "", "a molar hurts"))[0]
	same := dot(all[1], alone)
	assert.Truef(t, math.Abs(same-1) <= 1e-5, "alone a text has another vector: %f", same)
}

// The numbers are those of the library without our multiplication, which is to be faster and nothing else.
func TestVectorsAreTheModels(t *testing.T) {
	t.Parallel()
	e := start(t)
	all := numbers(t, vectors(t, e, "", "We moved the violin lesson to Thursday, since the hall is free then."))
	assert.InDeltaSlice(t, []float32{.0494564, -.0381205, -.0714150, -.0505245}, all[0][:4], 1e-5)
}

func TestVectorsAsBase64AndShorter(t *testing.T) {
	t.Parallel()
	e := start(t)
	want := numbers(t, vectors(t, e, `,"dimensions":64,"encoding_format":"float"`, "two words"))[0]
	length := dot(want, want)
	assert.Truef(t, len(want) == 64 && math.Abs(length-1) <= 1e-5, "%d numbers of the length %f", len(want), length)
	var encoded string
	require.NoError(t,
		json.Unmarshal(vectors(t, e, `,"dimensions":64,"encoding_format":"base64"`, "two words").Data[0].Embedding, &encoded))
	raw, err := base64.StdEncoding.DecodeString(encoded)
	got := make([]float32, 64)
	if err == nil {
		err = binary.Read(bytes.NewReader(raw), binary.LittleEndian, got)
	}
	diff := cmp.Diff(want, got)
	assert.Truef(t, err == nil && diff == "", "%v %s", err, diff)
}

// Scripts that the model does not know, nothing but spaces, and more than it reads have a vector, too.
func TestVectorsOfAnyText(t *testing.T) {
	t.Parallel()
	for n, vector := range numbers(t, vectors(t, start(t), "", " ", "\x00", "今日は", "👍🏽", strings.Repeat("x", 100_000))) {
		length := dot(vector, vector)
		assert.Truef(t, len(vector) == 512 && math.Abs(length-1) <= 1e-5,
			"vector %d has %d numbers and the length %f", n, len(vector), length)
	}
}

func TestWrongRequestsAreRefused(t *testing.T) {
	t.Parallel()
	e := start(t)
	model := `"model":"` + embedder.Model + `"`
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		param              string
	}{
		"no JSON":           {"POST", "/embeddings", `{`, 400, ""},
		"no object":         {"POST", "/embeddings", `[1]`, 400, ""},
		"null":              {"POST", "/embeddings", `null`, 400, ""},
		"no input":          {"POST", "/embeddings", `{` + model + `}`, 400, "input"},
		"a number":          {"POST", "/embeddings", `{` + model + `,"input":7}`, 400, "input"},
		"tokens":            {"POST", "/embeddings", `{` + model + `,"input":[[1,2]]}`, 400, "input"},
		"no texts":          {"POST", "/embeddings", `{` + model + `,"input":[]}`, 400, "input"},
		"too many texts":    {"POST", "/embeddings", `{` + model + `,"input":["x"` + strings.Repeat(`,"x"`, 2048) + `]}`, 400, "input"},
		"an empty text":     {"POST", "/embeddings", `{` + model + `,"input":["x",""]}`, 400, "input"},
		"no model":          {"POST", "/embeddings", `{"input":"x"}`, 400, "model"},
		"another model":     {"POST", "/embeddings", `{"model":"text-embedding-3-small","input":"x"}`, 404, "model"},
		"too long a vector": {"POST", "/embeddings", `{` + model + `,"input":"x","dimensions":513}`, 400, "dimensions"},
		"half a dimension":  {"POST", "/embeddings", `{` + model + `,"input":"x","dimensions":1.5}`, 400, "dimensions"},
		"another format":    {"POST", "/embeddings", `{` + model + `,"input":"x","encoding_format":"hex"}`, 400, "encoding_format"},
		"another method":    {"GET", "/embeddings", ``, 405, ""},
		"another path":      {"POST", "/responses", `{}`, 404, ""},
		"too large":         {"POST", "/embeddings", `{` + model + `,"input":"` + strings.Repeat("x", 16<<20) + `"}`, 413, ""},
	} {
		status, raw, err := send(t.Context(), e, c.method, c.path, c.body)
		var refused struct {
			Error struct{ Message, Type, Param string }
		}
		if err != nil || status != c.status || json.Unmarshal(raw, &refused) != nil ||
			refused.Error.Message == "" || refused.Error.Type != "invalid_request_error" || refused.Error.Param != c.param {
			t.Errorf("%s: %d, %v: %.200s", name, status, err, raw)
		}
	}
}

// The vector of a question comes while a long list is at work.
func TestAQuestionDoesNotWaitForALongList(t *testing.T) {
	t.Parallel()
	e := start(t)
	list := fmt.Sprintf(`{"model":%q,"input":["x"%s]}`, embedder.Model, strings.Repeat(`,"another of two thousand texts"`, 2047))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = send(ctx, e, http.MethodPost, "/embeddings", list) // it is cut off below
	}()
	vectors(t, e, "", "first")
	vectors(t, e, "", "second")
	select {
	case <-done:
		t.Error("the list was done before")
	default:
	}
	cancel()
	<-done
}

func TestCloseEndsIt(t *testing.T) {
	t.Parallel()
	e := start(t)
	e.Close()
	_, _, err := send(t.Context(), e, http.MethodGet, "/models", "")
	assert.Error(t, err, "it still runs after Close")
}

func TestEmbedderEndsWithItsParent(t *testing.T) {
	t.Parallel()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerEnv+"=1")
	out, err := owner.StdoutPipe()
	if err == nil {
		err = owner.Start()
	}
	require.NoError(t, err)
	address, err := bufio.NewReader(out).ReadString('\n')
	killErr := owner.Process.Kill()
	require.Truef(t, err == nil && killErr == nil, "%q, %v, %v", address, err, killErr)
	_ = owner.Wait() // it was killed
	testkit.Eventually(t, "no server answers", func() bool {
		response, err := client.Get(strings.TrimSpace(address) + "/models") //nolint:noctx // a test's own server
		if err == nil {
			_ = response.Body.Close()
		}
		return err != nil
	})
}

func TestMissingPackagesOrNode(t *testing.T) {
	if _, err := embedder.Start(t.Context(), t.TempDir(), silent); !errors.Is(err, embedder.ErrNotInstalled) {
		t.Errorf("without packages: %v", err)
	}
	broken := t.TempDir()
	require.NoError(t,
		os.MkdirAll(filepath.Join(broken, ".local", "embedder", "node_modules", "@energetic-ai", "model-embeddings-en"), 0o700))
	_, err := embedder.Start(t.Context(), broken, silent)
	assert.Truef(t, err != nil && !errors.Is(err, embedder.ErrNotInstalled) && strings.Contains(err.Error(), "@energetic-ai/embeddings"),
		"with half of the packages: %v", err)
	t.Setenv("PATH", t.TempDir())
	if _, err := embedder.Start(t.Context(), root, silent); !errors.Is(err, embedder.ErrNotInstalled) {
		t.Errorf("without Node.js: %v", err)
	}
}

func TestStartEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := embedder.Start(ctx, root, silent)
	assert.ErrorIsf(t, err, context.Canceled, "%v", err)
}

// unmeasured is a store without scales.
type unmeasured struct{ saved recall.Scale }

func (u *unmeasured) ReadScale(context.Context, string) (recall.Scale, bool, error) {
	return u.saved, u.saved != recall.Scale{}, nil
}

func (u *unmeasured) SaveScale(_ context.Context, _ string, scale recall.Scale) error {
	u.saved = scale
	return nil
}

// The model knows English alone, and tells there like texts from unlike ones.
func TestItsScaleIsThatOfEnglish(t *testing.T) {
	t.Parallel()
	client := llm.NewEmbedder(llm.Settings{BaseURL: start(t).BaseURL(), APIKey: "none"}, embedder.Model)
	t.Cleanup(client.Close)
	scale, err := recall.NewScales(&unmeasured{}, client).Measured(t.Context())
	require.Truef(t, err == nil && scale.Languages == "en", "%+v, %v", scale, err)
	for _, c := range []struct {
		question, text string
		near           bool
	}{
		{"What is my dog called?", "The user has a dog named Bruno.", true},
		{"Which string instrument do I play?", "The user plays the cello.", true},
		{"How is the weather?", "The user plays the cello.", false},
		{"Which string instrument do I play?", "The user has a dog named Bruno.", false},
	} {
		vectors, err := client.Embed(t.Context(), recall.For{}, []string{c.question, c.text})
		require.NoError(t, err)
		cosine := 0.
		for n := range vectors[0] {
			cosine += float64(vectors[0][n]) * float64(vectors[1][n])
		}
		got := recall.Similarity(cosine, scale)
		assert.Equalf(t, c.near, (got >= .7), "%q and %q: %.2f", c.question, c.text, got)
	}
}
