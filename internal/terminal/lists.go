package terminal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

const memoriesShown = 50

// MemoryLine formats a memory as one line.
func MemoryLine(memory api.Memory) string {
	notes := []string{memory.MemoryType}
	if memory.Status != "active" {
		notes = append(notes, memory.Status)
	}
	if memory.Pinned {
		notes = append(notes, "pinned")
	}
	return fmt.Sprintf("%s  (%s)", OneLine(memory.Content), OneLine(strings.Join(notes, ", ")))
}

// memories lists the memories of the user, or the ones that words are about.
func (t *talk) memories(ctx context.Context, words string) error {
	query := url.Values{"limit": {strconv.Itoa(memoriesShown)}}
	if words != "" {
		query.Set("q", words)
	}
	page, err := t.Client.Memories(ctx, query)
	if err != nil {
		return err
	}
	t.remembered = page.Memories
	for i, memory := range page.Memories {
		t.print("%3d  %s\n", i+1, MemoryLine(memory))
	}
	switch {
	case len(page.Memories) == 0 && words == "":
		t.print("Nothing is remembered yet.\n")
	case len(page.Memories) == 0:
		t.print("Nothing was found.\n")
	case page.NextCursor != nil:
		t.print("     … and more: `throughline memories list` shows all of them.\n")
	}
	return nil
}

func (t *talk) remember(ctx context.Context, content string) error {
	if content == "" {
		return errors.New("/remember wants a sentence, such as: I prefer oat milk")
	}
	memory, err := t.Client.Remember(ctx, content)
	return t.told(err, "Remembered in all chats: %s\n", MemoryLine(memory))
}

// forgetMemories forgets the memory with a number of /memories, or the ones that words mean.
func (t *talk) forgetMemories(ctx context.Context, which string) error {
	if number, err := strconv.Atoi(which); err == nil {
		return t.forgetNumber(ctx, number)
	}
	found, err := t.Client.ProposeForgetting(ctx, which)
	if err != nil {
		return err
	}
	if len(found.Candidates) == 0 {
		return t.told(nil, "Nothing is remembered of that.\n")
	}
	for _, candidate := range found.Candidates {
		t.print("     %s\n", OneLine(candidate.Content))
	}
	yes, err := t.ask(ctx, "Forget this for good?")
	forgotten := 0
	if yes && err == nil {
		forgotten, err = t.Client.Forget(ctx, found.Token)
	}
	return t.told(err, "%s\n", CountForgotten(forgotten))
}

func (t *talk) forgetNumber(ctx context.Context, number int) error {
	if number < 1 || number > len(t.remembered) {
		return errors.New("/forget NUMBER wants one of the last /memories")
	}
	return t.told(t.Client.ForgetMemory(ctx, t.remembered[number-1].ID), "%s\n", CountForgotten(1))
}

// CountForgotten says how many memories were forgotten.
func CountForgotten(n int) string {
	switch n {
	case 0:
		return "Nothing was forgotten."
	case 1:
		return "1 memory was forgotten."
	}
	return fmt.Sprintf("%d memories were forgotten.", n)
}

const topicsShown = 1000

// TopicLine formats a topic as one line, with its number.
func TopicLine(topic api.Topic) string {
	notes := []string{counted(topic.MessageCount, "message"), "last " + topic.LastActiveAt.Local().Format(time.DateOnly), topic.MemoryType}
	if topic.State != "active" {
		notes = append(notes, topic.State)
	}
	return fmt.Sprintf("%3d  %s  (%s)", topic.Number, text.Shorten(OneLine(topic.Title), maxTitleColumns), OneLine(strings.Join(notes, ", ")))
}

// topics lists the topics of the chat or the ones that words name, shows the one with a number, or names it.
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
