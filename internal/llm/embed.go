package llm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

const (
	// maxEmbeddedTokens is what OpenAI's models read of a text.
	maxEmbeddedTokens = 8191
	// maxVectorsBody is the most that is read of an answer, in bytes: some servers send numbers as text.
	maxVectorsBody = 16 << 20
)

// Embedder makes vectors that tell how near two texts are in meaning. It is safe for concurrent use.
type Embedder struct {
	settings Settings
	http     *http.Client
	reach
	model string
	// fixed is set for a model whose dimensions cannot be chosen.
	fixed atomic.Bool
}

var _ recall.Embedder = (*Embedder)(nil)

// NewEmbedder returns an embedder. The caller closes it.
func NewEmbedder(settings Settings, model string) *Embedder {
	e := &Embedder{settings: settings.withDefaults(), model: model}
	e.http = newHTTPClient(&e.reach, maxVectorsBody)
	e.fixed.Store(!strings.HasPrefix(model, "text-embedding-3-"))
	return e
}

// Close closes idle connections.
func (e *Embedder) Close() {
	e.http.CloseIdleConnections()
}

// Model names what the vectors can be compared with: those of the same model.
func (e *Embedder) Model() string { return e.model }

// Embed returns a vector of length 1 for each text, in one call if the model can read all. A text has none (nil) if it is
// blank, if the model finds no meaning in it, or fails at it alone while it reads others. Of a text longer than models read,
// the middle is left out. Its deadline is that of ctx; an error is a *fault.Error with an upstream code.
func (e *Embedder) Embed(ctx context.Context, of recall.For, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var input []string
	var places []int // of input in texts
	for n, content := range texts {
		if strings.TrimSpace(content) != "" {
			input, places = append(input, readable(content)), append(places, n)
		}
	}
	if len(input) == 0 {
		return vectors, nil
	}
	if of.UserID != uuid.Nil {
		if err := e.settings.Meter.Allow(ctx, of.UserID, purposeEmbed); err != nil {
			return nil, err
		}
	}
	found, err := embedding{e, of}.ask(ctx, input)
	if err != nil {
		return nil, err
	}
	for n, place := range places {
		vectors[place] = found[n]
	}
	return vectors, nil
}

func readable(content string) string {
	if len(content) > maxEmbeddedTokens { // a token is at least one byte
		content, _ = text.Clip(content, maxEmbeddedTokens)
	}
	return content
}

// purposeEmbed is the purpose of all calls for vectors.
const purposeEmbed = "embed"

// plainText is a text that every model takes.
const plainText = "The key is under the mat."

type embedding struct {
	*Embedder

	of recall.For
}

// ask returns the vectors of texts that are not blank. A text that the model refuses or fails at, such as one too long for
// it, has none, and does not cost the others theirs.
func (e embedding) ask(ctx context.Context, input []string) ([][]float32, error) {
	vectors, err := e.request(ctx, input)
	if mayBeTheTexts(err) {
		if _, fails := e.request(ctx, []string{plainText}); fails == nil {
			vectors, err = e.askApart(ctx, input)
		}
	}
	if _, known := errors.AsType[*fault.Error](err); err != nil && !known {
		return nil, upstreamError(ctx, err)
	}
	return vectors, err
}

// askApart asks for each half of texts that failed together, until those are found that fail alone, and twice.
func (e embedding) askApart(ctx context.Context, input []string) ([][]float32, error) {
	halves := [][]string{input[:len(input)/2], input[len(input)/2:]}
	if len(input) == 1 {
		halves = [][]string{input}
	}
	var all [][]float32
	for _, half := range halves {
		vectors, err := e.request(ctx, half)
		switch {
		case mayBeTheTexts(err) && len(input) == 1:
			vectors, err = [][]float32{nil}, nil
		case mayBeTheTexts(err):
			vectors, err = e.askApart(ctx, half)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, vectors...)
	}
	return all, nil
}

// mayBeTheTexts reports whether a call may have failed because of its texts: the server refused it or broke down, or its answer
// cannot be used.
func mayBeTheTexts(err error) bool {
	if _, unusable := errors.AsType[*fault.Error](err); unusable {
		return true
	}
	refused, ok := errors.AsType[*refusal](err)
	return ok && isAboutInput(refused)
}

type embeddingParams struct {
	Model          string   `json:"model"`
	Input          []string `json:"input"`
	EncodingFormat string   `json:"encoding_format"`
	Dimensions     int      `json:"dimensions,omitempty"`
}

// request makes one call, or a second one without dimensions.
func (e embedding) request(ctx context.Context, input []string) ([][]float32, error) {
	params := embeddingParams{Model: e.model, Input: input, EncodingFormat: "base64"}
	if !e.fixed.Load() {
		params.Dimensions = recall.VectorSize
	}
	vectors, err := e.call(ctx, params)
	if refusesDimensions(err) && params.Dimensions > 0 {
		params.Dimensions = 0
		if vectors, err = e.call(ctx, params); err == nil { // else the message quoted a text
			e.fixed.Store(true)
		}
	}
	return vectors, err
}

// call is one call, which is counted. An answer that cannot be used is a *fault.Error.
func (e embedding) call(ctx context.Context, params embeddingParams) (vectors [][]float32, err error) {
	start, result := time.Now(), "failed"
	defer func() {
		e.settings.Metrics.EmbeddingDuration.WithLabelValues(result).Observe(time.Since(start).Seconds())
	}()
	body, err := e.answer(ctx, params)
	if _, refused := errors.AsType[*refusal](err); !refused {
		e.bill(ctx, params, body)
	}
	if err != nil {
		return nil, err
	}
	if vectors, err = decodeVectors(body, len(params.Input)); err != nil {
		return nil, fault.Wrap(fault.UpstreamFailed, "The embedding model's answer cannot be used.", err)
	}
	result = "answered"
	return vectors, nil
}

// bill records the cost of a call. Where the answer does not say, or broke off, the cost of the texts sent is estimated.
func (e embedding) bill(ctx context.Context, params embeddingParams, body []byte) {
	if e.of.UserID == uuid.Nil {
		return
	}
	spent := work.Spent{Purpose: purposeEmbed, Model: params.Model, UserID: e.of.UserID, ChatID: e.of.ChatID}
	var answer struct {
		Usage struct {
			PromptTokens int64 `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &answer); err == nil {
		spent.InputTokens = tokenCount(answer.Usage.PromptTokens)
	}
	if spent.InputTokens == 0 {
		spent.Estimated = true
		for _, sent := range params.Input {
			spent.InputTokens += text.Tokens(sent)
		}
	}
	e.settings.Meter.Record(ctx, spent)
}

// answer returns the body of an answer. The call is never repeated: a question cannot wait for a second try, and River
// repeats jobs.
func (e *Embedder) answer(ctx context.Context, params embeddingParams) ([]byte, error) {
	response, err := post(ctx, e.http, e.settings, "/embeddings", params, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	return io.ReadAll(response.Body)             // the client bounds it
}

// refusesDimensions also reads the message: OpenAI's names no field.
func refusesDimensions(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && (refused.isAbout("dimensions") ||
		refused.status == http.StatusBadRequest && refused.param == "" && strings.Contains(refused.message, "dimensions"))
}

// decodeVectors returns the vectors of an answer in the order of their texts.
func decodeVectors(body []byte, texts int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     *int            `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil, errors.New("it is not the JSON of vectors") // the library's error may quote the answer
	}
	if len(answer.Data) != texts {
		return nil, fmt.Errorf("%d vectors for %d texts", len(answer.Data), texts)
	}
	vectors, had := make([][]float32, texts), make([]bool, texts)
	for n, item := range answer.Data {
		at := n
		if item.Index != nil {
			at = *item.Index
		}
		if at < 0 || at >= texts || had[at] {
			return nil, errors.New("its indexes are not those of the texts")
		}
		numbers, err := decodeNumbers(item.Embedding)
		if err != nil {
			return nil, err
		}
		if vectors[at], err = unit(numbers); err != nil {
			return nil, err
		}
		had[at] = true
	}
	return vectors, nil
}

// decodeNumbers reads a vector: little-endian float32s in base64, or a list of numbers, which some servers send for any
// they are asked for.
func decodeNumbers(raw json.RawMessage) ([]float32, error) {
	var numbers []float32
	if json.Unmarshal(raw, &numbers) == nil {
		return numbers, nil
	}
	var packed []byte // which encoding/json reads as base64
	if json.Unmarshal(raw, &packed) != nil || len(packed)%4 != 0 {
		return nil, errors.New("a vector is neither numbers nor base64 of them")
	}
	numbers = make([]float32, len(packed)/4)
	for n := range numbers {
		numbers[n] = math.Float32frombits(binary.LittleEndian.Uint32(packed[4*n:]))
	}
	return numbers, nil
}

// unit returns the vector with length 1 and recall.VectorSize numbers; nil for one without a direction.
func unit(numbers []float32) ([]float32, error) {
	if len(numbers) == 0 || len(numbers) > recall.VectorSize {
		return nil, fmt.Errorf("a vector has %d numbers; from 1 to %d can be stored: see EMBEDDING_MODEL", len(numbers), recall.VectorSize)
	}
	squares := 0.0
	for _, number := range numbers {
		squares += float64(number) * float64(number)
	}
	if math.IsNaN(squares) || math.IsInf(squares, 0) {
		return nil, errors.New("a vector has a number that is none")
	}
	if squares == 0 {
		return nil, nil
	}
	vector, length := make([]float32, recall.VectorSize), math.Sqrt(squares)
	for n, number := range numbers {
		vector[n] = float32(float64(number) / length)
	}
	return vector, nil
}
