package llm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

var chatWire = Variant{Chat: true}

// asked is what a server was sent.
type asked struct {
	path, key string
	body      map[string]any
	raw       string
}

// variantOn returns the client of a variant whose server answers the calls one after the other, the last for ever.
func variantOn(t *testing.T, variant Variant, handlers ...http.HandlerFunc) (*Client, *[]asked) {
	var calls []asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		call := asked{path: r.URL.Path, key: r.Header.Get("Authorization"), raw: string(raw)}
		_ = json.Unmarshal(raw, &call.body) // an odd body fails its test
		calls = append(calls, call)
		handlers[min(len(calls), len(handlers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	variant.BaseURL = server.URL
	models := NewModels(client(t, "http://127.0.0.1:1", 0), map[string]Variant{"v": variant})
	t.Cleanup(models.Close)
	return models.variants["v"], &calls
}

// item is an item as the Responses API tells that it has ended.
func item(fields string) string {
	return event("response.output_item.done", `,"item":{"id":"x_1","status":"completed",`+fields+`}`)
}

func quote(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// chunk is one of Chat Completions, with its choice.
func chunk(choice string) string {
	return `data: {"id":"resp_1","object":"chat.completion.chunk","model":"m-1","choices":[{"index":0,` + choice + `}]}` + "\n\n"
}

func chatDelta(fields string) string { return chunk(`"delta":{` + fields + `},"finish_reason":null`) }

func finishes(reason string) string { return chunk(`"delta":{},"finish_reason":"` + reason + `"`) }

const (
	chatUsage = `data: {"id":"resp_1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}}}` + "\n\n"
	chatDone  = "data: [DONE]\n\n"
)

// asResponse and asCompletion tell the same items on either wire.
func asResponse(items []chat.Item) (stream string) {
	for n, said := range items {
		place := fmt.Sprintf(`,"output_index":%d,"content_index":0`, n)
		if said.Type == chat.ItemCall {
			stream += item(fmt.Sprintf(`"type":"function_call","call_id":%s,"name":%s,"arguments":%s`, quote(said.CallID), quote(said.Name), quote(said.Arguments)))
			continue
		}
		for _, word := range strings.SplitAfter(said.Text, " ") {
			stream += event("response.output_text.delta", place+`,"delta":`+quote(word))
		}
		stream += event("response.output_item.done", place+`,"item":{"type":"message","content":[{"type":"output_text","text":`+quote(said.Text)+`}]}`)
	}
	return stream + completedEvent
}

func asCompletion(items []chat.Item) (stream string) {
	calls := 0
	for _, said := range items {
		if said.Type == chat.ItemMessage {
			for _, word := range strings.SplitAfter(said.Text, " ") {
				stream += chatDelta(`"content":` + quote(word))
			}
			continue
		}
		stream += chatDelta(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]`,
			calls, quote(said.CallID), quote(said.Name)))
		for _, piece := range strings.SplitAfter(said.Arguments, " ") {
			stream += chatDelta(fmt.Sprintf(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, calls, quote(piece)))
		}
		calls++
	}
	return stream + finishes("stop") + chatUsage + chatDone
}

func says(text string) chat.Item { return chat.Item{Type: chat.ItemMessage, Text: text} }

func calls(id, name, arguments string) chat.Item {
	return chat.Item{Type: chat.ItemCall, CallID: id, Name: name, Arguments: arguments}
}

// What a model says is the same on both wires.
func TestBothWiresAlike(t *testing.T) {
	t.Parallel()
	for name, items := range map[string][]chat.Item{
		"text":             {says(fourWords)},
		"text and a call":  {says("Let me look.  "), calls("call_1", "weather", `{"city": "Köln", "unit": "\u00b0"}`)},
		"a call alone":     {calls("call_1", "weather", `{}`)},
		"several calls":    {says("Both."), calls("a", "weather", `{"city": "Bonn"}`), calls("b", "clock", ""), calls("c", "weather", `{"city": "Köln"}`)},
		"broken arguments": {calls("call_1", "weather", `{"city": "K`)},
		"nothing":          nil,
	} {
		usage := streaming.Usage{InputTokens: 3, CachedTokens: 2, OutputTokens: 1}
		want := chat.ModelResult{Model: "m-1", ResponseID: "resp_1", FinishReason: "stop", Items: items, Usage: usage}
		text := ""
		for _, said := range items {
			text += said.Text
			if said.Type == chat.ItemCall {
				want.FinishReason = "tool_calls"
			}
		}
		for wire, stream := range map[Variant]string{{}: asResponse(items), chatWire: asCompletion(items)} {
			t.Run(fmt.Sprintf("%s, chat %v", name, wire.Chat), func(t *testing.T) {
				t.Parallel()
				c, _ := variantOn(t, wire, sends(stream))
				got := read(t.Context(), c, nil)
				require.NoError(t, got.err)
				assert.Equal(t, text, got.text)
				assert.Equal(t, want, got.result)
			})
		}
	}
}

// An item comes back as it was said, also where the reader sees its parts apart.
func TestItemsOfAResponse(t *testing.T) {
	t.Parallel()
	part := func(text string) string { return `{"type":"output_text","text":"` + text + `"}` }
	const (
		thought = `"type":"reasoning","summary":[{"type":"summary_text","text":"I look."},{"type":"summary_text","text":"Where?"}],"encrypted_content":"gA\u0000A"`
		call    = `"type":"function_call","call_id":"c","name":"clock","arguments":"{}"`
		cut     = `,"response":{"incomplete_details":{"reason":"max_output_tokens"}}`
	)
	reasoning := chat.Item{Type: chat.ItemReasoning, Summary: []string{"I look.", "Where?"}, Encrypted: "gA\uFFFDA"}
	for _, c := range []struct {
		name, stream, text, reason string
		items                      []chat.Item
	}{
		{"sealed reasoning, a remark and a call", item(thought) + item(`"type":"message","phase":"commentary","content":[`+part("Let me look.")+`]`) + item(call),
			"Let me look.", "tool_calls", []chat.Item{reasoning, {Type: chat.ItemMessage, Text: "Let me look.", Phase: "commentary"}, calls("c", "clock", "{}")}},
		{"parts that are joined", item(`"type":"message","content":[` + part("one") + `,{"type":"refusal","refusal":"two"}]`), "one\n\ntwo", "stop",
			[]chat.Item{says("onetwo")}},
		{"only at the end", event("response.completed", `,"response":{"output":[{`+thought+`},{"type":"message","content":[`+part("one")+`]},{`+call+`}]}`),
			"one", "tool_calls", []chat.Item{reasoning, says("one"), calls("c", "clock", "{}")}},
		{"a call that may be cut", delta(`"one"`) + item(`"type":"message","content":[`+part("one")+`]`) + item(call) + event("response.incomplete", cut),
			"one", "length", []chat.Item{says("one")}},
		{"nothing said", item(`"type":"reasoning","summary":[]`) + item(`"type":"message","content":[]`) + item(`"type":"function_call","arguments":"{}"`) +
			item(`"type":"web_search_call"`), "", "stop", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := read(t.Context(), client(t, serve(t, sends(c.stream, completedEvent)).url, 0), nil)
			require.NoError(t, got.err)
			assert.Equal(t, []string{c.text, c.reason}, []string{got.text, got.result.FinishReason})
			assert.Equal(t, c.items, append([]chat.Item(nil), got.result.Items...))
		})
	}
}

func TestSourcesOnBothWires(t *testing.T) {
	t.Parallel()
	want := []chat.Source{{URL: "https://a.example", Title: "A"}, {URL: "https://b.example"}}
	for wire, stream := range map[Variant]string{
		{}: item(`"type":"message","content":[{"type":"output_text","text":"x","annotations":[{"type":"url_citation","url":"https://a.example","title":"A"},
			{"type":"file_citation","url":"https://c.example"},{"type":"url_citation","url":"https://b.example"},
			{"type":"url_citation","url":"https://b.example"}]}]`) + completedEvent,
		chatWire: chatDelta(`"content":"x","annotations":[{"type":"url_citation","url_citation":{"url":"https://a.example","title":"A"}}]`) +
			chatDelta(`"annotations":[{"type":"url_citation","url_citation":{"url":"https://b.example"}},{"type":"other"}]`) + finishes("stop") + chatDone,
	} {
		c, _ := variantOn(t, wire, sends(strings.ReplaceAll(stream, "\n\t\t\t", "")))
		got := read(t.Context(), c, nil)
		assert.NoError(t, got.err)
		assert.Equal(t, want, got.result.Sources, "chat %v", wire.Chat)
	}
}

// foreignChunks are streams of servers that are no OpenAI, and broken ones.
var foreignChunks = []struct {
	name, stream, text, reason string
	code                       fault.Code
}{
	{"no usage, no [DONE]", chatDelta(`"role":"assistant","content":""`) + chatDelta(`"content":"a"`) + finishes("stop"), "a", "stop", ""},
	{"a text with its end", chunk(`"delta":{"content":"a"},"finish_reason":"stop"`) + chatDone, "a", "stop", ""},
	{"text after the end", chatDelta(`"content":"a"`) + finishes("stop") + chatDelta(`"content":"b"`) + finishes("length") + chatDone, "a", "stop", ""},
	{"a refusal", chatDelta(`"refusal":"No","content":null`) + chatDelta(`"refusal":"."`) + finishes("stop") + chatDone, "No.", "stop", ""},
	{"thoughts", chatDelta(`"reasoning_content":"hm","content":null`) + chatDelta(`"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"a"}]`) +
		finishes("stop"), "a", "stop", ""},
	{"errors that are none, comments", ": busy\n\n" + `data: {"error":null,"choices":[{"delta":{"content":"a\u0000\ud83d"}}]}` + "\n\n" +
		finishes("eos") + chatDone, "a\uFFFD\uFFFD", "stop", ""},
	{"out of tokens", chatDelta(`"content":"a"`) + finishes("length") + chatDone, "a", "length", ""},
	{"out of its window", chatDelta(`"content":"a"`) + finishes("model_length") + chatDone, "a", "length", ""},
	{"filtered", chatDelta(`"content":"a","tool_calls":[{"id":"c","function":{"name":"clock"}}]`) + finishes("content_filter") + chatDone,
		"a", "content_filter", ""},
	{"calls that are announced and not there", chatDelta(`"tool_calls":[{"index":0,"id":"c"}]`) + finishes("tool_calls") + chatDone, "", "stop", ""},
	{"cut off", chatDelta(`"content":"a"`), "a", "", fault.UpstreamFailed},
	{"done too early", chatDelta(`"content":"a"`) + chatDone, "a", "", fault.UpstreamFailed},
	{"a call that is cut off", chatDelta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"clock"}}]`), "", "", fault.UpstreamFailed},
	{"no JSON", chatDelta(`"content":"a"`) + "data: {\"choices\":[\n\n", "a", "", fault.UpstreamFailed},
	{"the model fails", chatDelta(`"content":"a"`) + finishes("error") + chatDone, "a", "", fault.UpstreamFailed},
	{"an error", chatDelta(`"content":"a"`) + `data: {"error":{"message":"canary","type":"server_error","code":null}}` + "\n\n", "a", "", fault.UpstreamFailed},
	{"an error in a word", `data: {"error":"canary"}` + "\n\n", "", "", fault.UpstreamFailed},
	{"an error with a number", "event: error\n" + `data: {"error":{"message":"canary","code":429}}` + "\n\n", "", "", fault.UpstreamOverloaded},
	{"an error after usage", chatUsage + `data: {"error":{"type":"rate_limit_exceeded"}}` + "\n\n", "", "", fault.UpstreamOverloaded},
}

func TestForeignChunks(t *testing.T) {
	t.Parallel()
	for _, foreign := range foreignChunks {
		t.Run(foreign.name, func(t *testing.T) {
			t.Parallel()
			c, _ := variantOn(t, chatWire, sends(foreign.stream))
			got := read(t.Context(), c, nil)
			assert.Equal(t, []string{foreign.text, foreign.reason}, []string{got.text, got.result.FinishReason})
			assert.Zero(t, got.result.Usage)
			if foreign.code == "" {
				assert.NoError(t, got.err)
				return
			}
			wantFault(t, got.err, foreign.code)
			assert.NotContains(t, everyWayToShow(got.err), "canary")
		})
	}
}

// Pieces of calls belong together by their number, or where all have the same by their id.
func TestPiecesOfCalls(t *testing.T) {
	t.Parallel()
	piece := func(fields string) string { return chatDelta(`"tool_calls":[{` + fields + `}]`) }
	want := []chat.Item{calls("a", "weather", `{"n":1}`), calls("b", "clock", `{"n":2}`)}
	for name, stream := range map[string]string{
		"numbered, mixed": piece(`"index":0,"id":"a","function":{"name":"weather"}`) + piece(`"index":1,"id":"b","function":{"name":"clock","arguments":"{\"n\""}`) +
			piece(`"index":0,"function":{"arguments":"{\"n\":1}"}`) + piece(`"index":1,"function":{"arguments":":2}"}`),
		"all number 0": piece(`"index":0,"id":"a","function":{"name":"weather","arguments":"{\"n\":1}"}`) +
			piece(`"index":0,"id":"b","function":{"name":"clock","arguments":"{\"n\""}`) + piece(`"index":0,"function":{"arguments":":2}"}`),
		"no numbers, id and name again": piece(`"id":"a","function":{"name":"weather","arguments":"{\"n\""}`) +
			piece(`"id":"a","function":{"name":"weather","arguments":":1}"}`) + piece(`"id":"b","function":{"name":"clock","arguments":{"n":2}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := variantOn(t, chatWire, sends(stream, finishes("tool_calls"), chatDone))
			got := read(t.Context(), c, nil)
			assert.NoError(t, got.err)
			assert.Equal(t, want, got.result.Items)
		})
	}
}

// What a model says beside its text is bounded as well.
func TestItemsAreBounded(t *testing.T) {
	t.Parallel()
	big, many := strings.Repeat("x", maxReply), &strings.Builder{}
	for n := range maxItems/itemSize + 1 {
		fmt.Fprintf(many, `{"index":%d},`, n)
	}
	for name, c := range map[string]struct {
		wire   Variant
		stream string
	}{
		"arguments": {Variant{}, strings.Repeat(item(`"type":"function_call","call_id":"c","name":"clock","arguments":"`+big+`"`), 2)},
		"sources": {Variant{}, item(`"type":"message","content":[{"type":"output_text","text":"x","annotations":[{"type":"url_citation","url":"` + big + `"},
			{"type":"url_citation","url":"y` + big + `"}]}]`)},
		"pieces": {chatWire, strings.Repeat(chatDelta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"clock","arguments":"`+big+`"}}]`), 2)},
		"calls":  {chatWire, chatDelta(`"tool_calls":[` + many.String() + `{}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := variantOn(t, c.wire, sends(strings.ReplaceAll(c.stream, "\n\t\t\t", ""), completedEvent, finishes("stop")))
			got := read(t.Context(), client, nil)
			wantFault(t, got.err, fault.UpstreamFailed)
		})
	}
}

// A server of Chat Completions that goes silent is left as one of Responses is.
func TestSilentCompletion(t *testing.T) {
	t.Parallel()
	hangs := func(w http.ResponseWriter, r *http.Request) {
		sends(chatDelta(`"content":"a"`))(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	c, _ := variantOn(t, chatWire, hangs)
	c.settings.IdleTimeout = 3 * time.Second // the first piece has to arrive within it
	got := read(t.Context(), c, nil)
	wantFault(t, got.err, fault.UpstreamTimeout)
	assert.Equal(t, "a", got.text)
}
