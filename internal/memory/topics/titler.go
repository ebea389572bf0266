package topics

import (
	"cmp"
	"context"
	_ "embed" // the instructions
	"log/slog"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// TitlePurpose is the purpose of the calls for titles of chats.
const TitlePurpose = "title"

//go:embed instructions/title.md
var titleInstructions string

// Titler has a model give chats their titles. All fields are required.
type Titler struct {
	Store  TitleStore
	Writer Model
	// Model answers.
	Model string
	// Rest is how long nothing was said before.
	Rest    time.Duration
	Metrics *metrics.Metrics
	Logger  *slog.Logger
}

// UntitledChat is a chat that a model may give a title, as it was read.
type UntitledChat struct {
	UserID uuid.UUID
	// EditCount and ClearedSeq change when words leave the chat.
	EditCount, ClearedSeq int64
	Summary               string
	// Said is what was said last, oldest first, up to LastSeq.
	Said    []QuestionMessage
	LastSeq int64
	// Idle is for how long nothing was said.
	Idle time.Duration
}

// TitleStore keeps titles.
type TitleStore interface {
	// ReadUntitled returns false for a chat that has a title of its own, or is gone.
	ReadUntitled(ctx context.Context, chatID uuid.UUID) (UntitledChat, bool, error)
	// WriteTitle writes nothing where the chat has a title by now, or words have left it since it was read.
	WriteTitle(ctx context.Context, chatID uuid.UUID, chat UntitledChat, title string) error
}

// titleTimeout bounds the call.
const titleTimeout = 20 * time.Second

// Title gives a chat a title, unless it has one. It returns when to come again where somebody is talking. A model that fails, or says
// something that is no title, is no error: the chat keeps the one that it has, and is tried again three turns later.
func (t *Titler) Title(ctx context.Context, chatID uuid.UUID) (again time.Duration, err error) {
	chat, untitled, err := t.Store.ReadUntitled(ctx, chatID)
	switch {
	case err != nil, !untitled, len(chat.Said) == 0:
		return 0, err
	case chat.Idle < t.Rest:
		return t.Rest, nil
	}
	asking, cancel := context.WithTimeout(ctx, titleTimeout)
	defer cancel()
	answer, err := t.Writer.Write(asking, work.Question{
		Purpose: TitlePurpose, Model: t.Model, Instructions: strings.TrimSpace(titleInstructions),
		Input: conversation(chat.Summary, chat.Said), CacheKey: chatID, UserID: chat.UserID,
	})
	t.Metrics.CountTokens(TitlePurpose, answer.InputTokens, answer.CachedTokens, answer.OutputTokens)
	title := titleIn(answer.Text)
	if title == "" {
		t.Logger.LogAttrs(ctx, slog.LevelInfo, "chat keeps its first title", slog.String("chat_id", chatID.String()), slog.Any("error", err))
		return 0, nil
	}
	return 0, t.Store.WriteTitle(ctx, chatID, chat, title)
}

// mostTitleWords is twice what the model is asked for at most; an answer with more is no title.
const mostTitleWords = 2 * mostTitle

var titleHeading = regexp.MustCompile(`(?i)^[^\pL\pN]*(?:(?:chat |conversation )?title|titel|titre|título|titolo)[*_]*\s*[:：][\s*_]*`)

// titleIn returns the title that an answer is, without what marks it up; "" if it is none.
func titleIn(answer string) string {
	title := clean(answer, titleHeading)
	title = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
			return -1
		}
		return c
	}, strings.Trim(title, "*_#` "))
	title = strings.TrimRight(title, ".。 ")
	words := len(strings.Fields(title))
	if strings.ContainsFunc(title, isSpaceless) {
		words = mostTitle // they stand without spaces
	}
	if words < 2 || words > mostTitleWords || utf8.RuneCountInString(title) > TitleLength || !strings.ContainsFunc(title, unicode.IsLetter) {
		return ""
	}
	first, size := utf8.DecodeRuneInString(title)
	return cmp.Or(string(unicode.ToUpper(first))+title[size:], title)
}
