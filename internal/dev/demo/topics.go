package demo

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the conversation about a bow
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/terminal"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// wandering is a conversation that begins with a bow for a cello, and then is about everything else.
//
//go:embed topics.jsonl
var wandering string

const (
	// topicsPatience is how long the workers may take to find topics, to forget them, and to bring one back. The sweep
	// that starts some of it comes every ten seconds.
	topicsPatience = time.Minute
	topicPoll      = 500 * time.Millisecond
	// wanderingTurns is how many turns of the chat may be outside its brief: it is folded as soon as it is imported.
	wanderingTurns = 4
	// wanderingAge and wanderingGap are how long ago the conversation began, and the time between two of its turns. Its
	// first topic has faded by now.
	wanderingAge = 75 * 24 * time.Hour
	wanderingGap = 30 * time.Hour
)

// What is asked when the conversation comes back to its first topic.
const (
	bowTitle    = "My cello bow"
	bowQuestion = "Back to my cello bow: which rosin did I choose for it?"
	bowAgain    = "And what did I pay for the carbon fibre bow of my cello?"
)

// wanderer comes back to what a conversation was about long ago. It checks what it prints: a topic that was not
// forgotten, not found, not shown or not restored is an error.
type wanderer struct {
	scene
	chat uuid.UUID
	// messages is how many the imported conversation has.
	messages int
	// patience is how long the workers may take for each step.
	patience time.Duration
}

// errOneTopic reports that the server's embedder does not tell topics apart.
var errOneTopic = errors.New("all turns are one topic")

// showTopics plays the part about topics: import a conversation that has wandered off, and come back to its beginning.
func (p *player) showTopics(ctx context.Context) error {
	fmt.Fprintln(p.Out, "\nTOPICS  what a chat was about, forgotten and found again")
	if p.NoTopics {
		fmt.Fprintln(p.Out, "  The server keeps no topics (TOPICS=off).")
		return nil
	}
	w := &wanderer{scene: p.scene(), patience: cmp.Or(p.topicsPatience, topicsPatience)}
	err := w.play(ctx)
	if errors.Is(err, errOneTopic) {
		fmt.Fprintln(p.Out, "  All of it is one topic: the server has no embedder that tells texts apart.")
		return nil
	}
	if err != nil {
		return fmt.Errorf("topics: %w", err)
	}
	return nil
}

func (w *wanderer) play(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	bow, err := w.awaitTopic(ctx, "archived")
	if err != nil {
		return err
	}
	if err := w.packed(ctx, bow); err != nil {
		return err
	}
	if err := w.preview(ctx); err != nil {
		return err
	}
	if err := w.comeBack(ctx, bow); err != nil {
		return err
	}
	_, err = w.awaitTopic(ctx, "active")
	return err
}

// begin imports the conversation, so that it was held months ago.
func (w *wanderer) begin(ctx context.Context) error {
	lines, err := ReadConversation(strings.NewReader(wandering))
	if err != nil {
		return err
	}
	file, err := wanderingBundle(lines, time.Now().Add(-wanderingAge))
	if err != nil {
		return err
	}
	raw, err := w.client.Import(ctx, bytes.NewReader(file), func(transfer.Progress) {})
	if err != nil {
		return err
	}
	var done transfer.Result
	if err := json.Unmarshal(raw, &done); err != nil || len(done.Chats) != 1 {
		return fmt.Errorf("the import's answer cannot be read: %w", errors.Join(err, errors.New("not one chat")))
	}
	w.chat, w.messages = done.Chats[0].ChatID, len(lines)
	fmt.Fprintf(w.out, "  chat    %s from %s on: seven turns about a cello bow, then %d about other things\n",
		count(len(lines), "message"), time.Now().Add(-wanderingAge).Format("2 January 2006"), len(lines)/2-7)
	return nil
}

// wanderingBundle is the conversation as a file to import, with ids of its own: a second run is another chat.
func wanderingBundle(lines []Line, began time.Time) ([]byte, error) {
	var file bytes.Buffer
	write := bundle.NewLines(&file)
	turns, remember := wanderingTurns, false
	err := write.Begin(time.Now(), bundle.Chat{
		ID: uuid.NewString(), Title: "A bow, and everything else", MaxTurns: &turns, Remember: &remember, CreatedAt: began,
	})
	for n, line := range lines {
		at := began.Add(time.Duration(n/2)*wanderingGap + time.Duration(n%2)*time.Second)
		message := bundle.Message{ID: uuid.NewString(), Seq: int64(n + 1), Role: line.Role, Content: line.Content, CreatedAt: at}
		err = errors.Join(err, write.Message(message))
	}
	err = errors.Join(err, write.End())
	return file.Bytes(), err
}

// awaitTopic waits until the topic of the bow has this state, and prints the topics.
func (w *wanderer) awaitTopic(ctx context.Context, state string) (history.Topic, error) {
	waiting, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	for seen := "none"; ; {
		var page history.TopicPage
		if err := w.call(ctx, http.MethodGet, client.ChatPath(w.chat, "/topics"), nil, nil, &page); err != nil {
			return history.Topic{}, err
		}
		if at := slices.IndexFunc(page.Topics, isBow); at >= 0 {
			seen = page.Topics[at].State
			if seen == state {
				w.print(page.Topics, at)
				return page.Topics[at], nil
			}
		}
		select {
		case <-waiting.Done():
			if len(page.Topics) == 1 && page.Topics[0].MessageCount >= w.messages { // which it is as long as there are no vectors, too
				return history.Topic{}, errOneTopic
			}
			return history.Topic{}, fmt.Errorf("the topic of the bow is not %s (%s, among %s): %w", state, seen, count(len(page.Topics), "topic"), waiting.Err())
		case <-time.After(topicPoll):
		}
	}
}

func isBow(t history.Topic) bool { return strings.HasPrefix(t.Title, bowTitle) }

// print prints the topic of the bow and the latest others, as /topics does.
func (w *wanderer) print(topics []history.Topic, bow int) {
	const others = 3
	fmt.Fprintf(w.out, "  topics  %s\n", count(len(topics), "topic"))
	shown := append([]history.Topic{topics[bow]}, slices.Delete(slices.Clone(topics), bow, bow+1)...)
	for n, t := range shown {
		if n > others {
			fmt.Fprintf(w.out, "          … and %d more\n", len(shown)-n)
			return
		}
		fmt.Fprintf(w.out, "          %2d  %-8s  priority %.2f  %s, half-life %g d, %s  %s\n", t.Number, t.State, t.Priority, t.MemoryType, t.HalfLifeDays,
			count(t.MessageCount, "message"), terminal.OneLine(t.Title))
	}
}

// packed checks that all messages of the forgotten topic are in its archive.
func (w *wanderer) packed(ctx context.Context, bow history.Topic) error {
	var stats history.TopicStats
	if err := w.call(ctx, http.MethodGet, client.ChatPath(w.chat, "/topics/"+bow.ID.String()+"/stats"), nil, nil, &stats); err != nil {
		return err
	}
	if stats.CompressedMessages != bow.MessageCount {
		return fmt.Errorf("of %s in the archived topic %d are packed", count(bow.MessageCount, "message"), stats.CompressedMessages)
	}
	fmt.Fprintf(w.out, "  packed  %s of %d, none is lost\n", count(stats.CompressedMessages, "message"), stats.TotalMessages)
	return nil
}

// preview prints what the prompt of the question would show of the topic.
func (w *wanderer) preview(ctx context.Context) error {
	var p chat.PromptPreview
	if err := w.call(ctx, http.MethodGet, client.ChatPath(w.chat, "/memory"), url.Values{"content": {bowQuestion}}, nil, &p); err != nil {
		return err
	}
	at := slices.IndexFunc(p.Sections, func(s prompt.Section) bool { return s.Name == "topic" })
	if at < 0 {
		return errors.New("the prompt has no section for the topic")
	}
	fmt.Fprintln(w.out, "  prompt  of the question that comes back to it:")
	for line := range strings.Lines(strings.TrimSpace(p.Sections[at].Text)) {
		fmt.Fprintf(w.out, "          | %s\n", terminal.OneLine(line))
	}
	return nil
}

// comeBack asks two questions about the bow, and checks that their prompts had the topic, and turns of no other.
func (w *wanderer) comeBack(ctx context.Context, bow history.Topic) error {
	of, err := w.search(ctx, bow, bowQuestion)
	if err != nil {
		return err
	}
	for _, question := range []string{bowQuestion, bowAgain} {
		_, answer, err := w.say(ctx, w.chat, question)
		if err != nil {
			return err
		}
		recalled := answer.Receipt.Recalled
		if question == bowQuestion && (answer.Receipt.Topic != bow.ID || len(recalled) == 0) {
			return fmt.Errorf("topic %s was not shown to the question about it, or nothing recalled of it", bow.ID)
		}
		for _, seq := range recalled {
			if question == bowQuestion && !of[seq] {
				return fmt.Errorf("message %d was recalled, which is of another topic", seq)
			}
		}
		fmt.Fprintf(w.out, "          (%s recalled within the topic)\n", count(len(recalled), "turn"))
	}
	found, err := w.search(ctx, bow, "rosin") // which has what was said just now indexed
	if err == nil {
		fmt.Fprintf(w.out, "  search  \"rosin\" within the topic finds %s\n", count(len(found), "message"))
	}
	return err
}

// search looks within the topic and returns the messages that it found, by their seq.
func (w *wanderer) search(ctx context.Context, bow history.Topic, words string) (map[int64]bool, error) {
	var found struct {
		Results []history.RecallResult `json:"results"`
	}
	query := url.Values{"q": {words}, "chat_id": {w.chat.String()}, "topic_id": {bow.ID.String()}, "limit": {"100"}}
	if err := w.call(ctx, http.MethodGet, "/v1/recall", query, nil, &found); err != nil {
		return nil, err
	}
	if len(found.Results) == 0 {
		return nil, errors.New("a search within the topic finds nothing")
	}
	seqs := map[int64]bool{}
	for _, result := range found.Results {
		seqs[result.Seq] = true
	}
	return seqs, nil
}
