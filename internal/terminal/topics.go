package terminal

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
)

const topicsShown = 1000

// TopicLine formats a topic as one line, with its number.
func TopicLine(topic api.Topic) string {
	notes := []string{counted(topic.MessageCount, "message"), "last " + topic.LastActiveAt.Local().Format(time.DateOnly), topic.MemoryType}
	if topic.State != "active" {
		notes = append(notes, topic.State)
	}
	return fmt.Sprintf("%3d  %s  (%s)", topic.Number, Shorten(OneLine(topic.Title), maxTitleColumns), OneLine(strings.Join(notes, ", ")))
}

// topics lists the topics of the chat or those that words name, shows the one with a number, or names it.
func (t *talk) topics(ctx context.Context, which string) error {
	first, title, _ := strings.Cut(which, " ")
	if number, err := strconv.Atoi(first); err == nil {
		return t.topic(ctx, number, strings.TrimSpace(title))
	}
	query := url.Values{"limit": {strconv.Itoa(topicsShown)}}
	if which != "" {
		query.Set("q", which)
	}
	found, err := t.Client.Topics(ctx, t.chatID, query)
	if err != nil {
		return err
	}
	for _, topic := range found {
		t.print("%s\n", TopicLine(topic))
	}
	switch {
	case len(found) == 0 && which == "":
		t.print("This chat has no topics yet: they begin when its first turns are summarized.\n")
	case len(found) == 0:
		t.print("Nothing was found.\n")
	}
	return nil
}

// topic shows the topic with a number, or gives it a title.
func (t *talk) topic(ctx context.Context, number int, title string) error {
	found, err := t.Client.Topics(ctx, t.chatID, url.Values{"limit": {strconv.Itoa(topicsShown)}})
	if err != nil {
		return err
	}
	for _, topic := range found {
		if topic.Number != number {
			continue
		}
		if title == "" {
			return t.showTopic(ctx, topic)
		}
		changed, err := t.Client.ChangeTopic(ctx, t.chatID, topic.ID, map[string]any{"title": title})
		return t.told(err, "%s\n", TopicLine(changed.Topic))
	}
	return fmt.Errorf("/topics has no number %d", number)
}

func (t *talk) showTopic(ctx context.Context, topic api.Topic) error {
	said, err := t.Client.TopicContext(ctx, t.chatID, topic.ID)
	if err != nil {
		return err
	}
	t.print("%s\n     since %s, came back %d times, importance %.2g, priority %.2g, half-life %.3g days\n", TopicLine(topic),
		topic.CreatedAt.Local().Format(time.DateOnly), topic.AccessCount, topic.Importance, topic.Priority, topic.HalfLifeDays)
	if len(topic.Tags) > 0 {
		t.print("     tags: %s\n", OneLine(strings.Join(topic.Tags, ", ")))
	}
	for _, message := range said.Messages {
		t.print("%s", MessageText(api.Message{Role: message.Role, Content: message.Content, Status: "complete"}))
	}
	return nil
}
