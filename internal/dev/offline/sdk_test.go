package offline

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// sdk is the official Go client, pointed at the server.
func sdk(l *Listening, options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(l.BaseURL()),
		option.WithAPIKey("anything"),
		option.WithHTTPClient(client),
	}, options...)...)
}

func asking(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: "gpt-5.6-terra",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)},
		Store: openai.Bool(false),
	}
}

func TestGoClientWhole(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: say(fourWords)})
	c := sdk(l)
	response, err := c.Responses.New(t.Context(), asking("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	if response.OutputText() != fourWords || response.Status != "completed" || response.Usage.OutputTokens != 4 || response.Metadata["throughline_model"] != "offline" {
		t.Errorf("%s", response.RawJSON())
	}
}

func TestGoClientStream(t *testing.T) {
	t.Parallel()
	for _, fault := range []Fault{"", FaultCRLF, FaultSplit} {
		t.Run("fault "+string(fault), func(t *testing.T) {
			t.Parallel()
			c := sdk(faulty(t, Answer{Text: fourWords, Fault: fault}))
			stream := c.Responses.NewStreaming(t.Context(), asking("Hi"))
			defer func() { _ = stream.Close() }()
			var kinds []string
			said, final := "", ""
			for stream.Next() {
				switch event := stream.Current().AsAny().(type) {
				case responses.ResponseTextDeltaEvent:
					said += event.Delta
				case responses.ResponseCompletedEvent:
					final = event.Response.OutputText()
				}
				if kind := stream.Current().Type; len(kinds) == 0 || kinds[len(kinds)-1] != kind {
					kinds = append(kinds, kind)
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fullSequence, kinds); diff != "" || said != fourWords || final != fourWords {
				t.Errorf("said %q, final %q, events %s", said, final, diff)
			}
		})
	}
}

func TestGoClientHostedPrompt(t *testing.T) {
	t.Parallel()
	l := start(t, Options{})
	c := sdk(l)
	params := responses.ResponseNewParams{
		Prompt: responses.ResponsePromptParam{ID: "pmpt_1", Version: openai.String("7")},
		Input:  responses.ResponseNewParamsInputUnion{OfString: openai.String(foldText("", [2]string{"My bus is 728.", ""}))},
	}
	response, err := c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if response.Model != hostedModel || response.Prompt.ID != "pmpt_1" || response.Prompt.Version != "7" || response.OutputText() != labelSaid+"\n- My bus is 728." {
		t.Errorf("%s", response.RawJSON())
	}
	gone := sdk(faulty(t, Answer{Fault: FaultPromptGone}))
	_, err = gone.Responses.New(t.Context(), params)
	if refused, ok := errors.AsType[*openai.Error](err); !ok || refused.StatusCode != http.StatusNotFound || refused.Param != "prompt" || refused.Code != "prompt_not_found" {
		t.Errorf("%v", err)
	}
}

func TestGoClientRetriesAfter429(t *testing.T) {
	t.Parallel()
	l := start(t, Options{Script: FailFirst(1, Answer{Fault: Fault429, RetryAfter: "0.01"})})
	c := sdk(l)
	if _, err := c.Responses.New(t.Context(), asking("Hi")); err != nil {
		t.Error(err)
	}
	if got := len(l.Requests()); got != 2 {
		t.Errorf("%d requests", got)
	}
	c = sdk(faulty(t, Answer{Fault: Fault429}), option.WithMaxRetries(0))
	_, err := c.Responses.New(t.Context(), asking("Hi"))
	if refused, ok := errors.AsType[*openai.Error](err); !ok || refused.StatusCode != http.StatusTooManyRequests || refused.Code != "rate_limit_exceeded" {
		t.Errorf("%v", err)
	}
}

func TestGoClientFaultsInAStream(t *testing.T) {
	t.Parallel()
	last := func(fault Fault) (string, error) {
		c := sdk(faulty(t, Answer{Text: fourWords, Fault: fault, FaultAfter: 2, Usage: &Usage{}}))
		stream := c.Responses.NewStreaming(t.Context(), asking("Hi"))
		defer func() { _ = stream.Close() }()
		kind := ""
		for stream.Next() {
			kind = stream.Current().Type
		}
		return kind, stream.Err()
	}
	for fault, want := range map[Fault]string{
		FaultEndEarly:      "response.output_text.delta",
		FaultFailed:        "response.failed",
		FaultErrorEvent:    "error", // the client hands it on as an event, without an error
		FaultContentFilter: "response.incomplete",
		FaultLongLine:      "response.completed",
	} {
		if kind, err := last(fault); kind != want || err != nil {
			t.Errorf("%s: ends with %s, %v", fault, kind, err)
		}
	}
	if kind, err := last(FaultCut); err == nil {
		t.Errorf("cut: ends with %s and no error", kind)
	}
}

func TestGoClientEmbeddings(t *testing.T) {
	t.Parallel()
	c := sdk(start(t, Options{}))
	got, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model:      openai.EmbeddingModelTextEmbedding3Small,
		Input:      openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
		Dimensions: openai.Int(256),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Data) != 2 || len(got.Data[1].Embedding) != 256 || got.Usage.TotalTokens != 2 {
		t.Errorf("%d vectors, usage %+v", len(got.Data), got.Usage)
	}
}
