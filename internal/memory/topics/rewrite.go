package topics

import (
	"cmp"
	"context"
	_ "embed" // the instructions
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Purpose is the purpose of the calls.
const Purpose = "rewrite"

// Longest is how many characters a question has at most, and its rewritten form.
const Longest = 500

//go:embed instructions/rewrite.md
var instructions string

// Instructions returns the instructions of the call.
func Instructions() string { return strings.TrimSpace(instructions) }

// Model answers in plain text. An answer without text is "", and no error.
type Model interface {
	Write(ctx context.Context, question work.Question) (work.Answer, error)
}

// Rewriter makes questions stand alone. It is safe for concurrent use. All fields are required except where noted.
type Rewriter struct {
	Writer Model
	// Instructions replace the built-in ones; "" for those.
	Instructions string
	// Model answers.
	Model   string
	Metrics *metrics.Metrics
	// Timeout bounds the call. Defaults to 20 s.
	Timeout time.Duration
}

// Question is a question as it was asked, with the conversation before it.
type Question struct {
	ChatID, UserID uuid.UUID
	// Summary is of what Said does not show; "" for none.
	Summary string
	// Said is oldest first.
	Said    []QuestionMessage
	Content string
}

// QuestionMessage is something that was said.
type QuestionMessage struct {
	// Role is user or assistant.
	Role    string
	Content string
}

// Rewrite returns a question as it can be asked alone, and whether that is another one than was asked. Where nothing was
// said before it asks no model. It returns an error only if the call fails.
func (r *Rewriter) Rewrite(ctx context.Context, q Question) (string, bool, error) {
	asked := strings.TrimSpace(q.Content)
	if asked == "" || utf8.RuneCountInString(asked) > Longest || strings.TrimSpace(q.Summary) == "" && !slices.ContainsFunc(q.Said, QuestionMessage.says) {
		return q.Content, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, 20*time.Second))
	defer cancel()
	answer, err := r.Writer.Write(ctx, work.Question{
		Purpose: Purpose, Model: r.Model, Instructions: cmp.Or(strings.TrimSpace(r.Instructions), Instructions()),
		Input: Write(q), CacheKey: q.ChatID, UserID: q.UserID,
	})
	if err != nil {
		return "", false, err
	}
	r.Metrics.CountTokens(Purpose, answer.InputTokens, answer.CachedTokens, answer.OutputTokens)
	rewritten := clean(answer.Text, titleOfAnswer)
	if rewritten == "" || utf8.RuneCountInString(rewritten) > Longest || rewritten == text.OneLine(asked) {
		return q.Content, false, nil
	}
	return rewritten, true, nil
}

func (m QuestionMessage) says() bool { return strings.TrimSpace(m.Content) != "" }

// quotation marks that a model may put around its answer, and their ends.
var marks = map[string]string{`"`: `"`, "“": "”", "„": "“", "«": "»", "`": "`", "'": "'", "‘": "’", "「": "」"}

var titleOfAnswer = regexp.MustCompile(`(?i)^[^\pL]*(?:standalone )?question[^\pL:：]*[:：]\s*`)

// clean returns an answer on one line, without marks around it and without a heading before it. It is "" if the gate of
// summaries refuses it: it is empty, declines, says nothing, or talks about the task.
func clean(answer string, heading *regexp.Regexp) string {
	answer = strings.TrimSpace(answer)
	if _, passed := brief.Judge("", answer); !passed {
		return ""
	}
	answer = text.OneLine(heading.ReplaceAllString(answer, ""))
	for opening, closing := range marks {
		inner, opened := strings.CutPrefix(answer, opening)
		inner, closed := strings.CutSuffix(inner, closing)
		if opened && closed && !strings.Contains(inner, closing) {
			answer = strings.TrimSpace(inner)
			break
		}
	}
	return answer
}

// The titles of the input, each at the beginning of a line. They must not change: the instructions and the offline model
// rely on them.
const (
	summaryTitle  = "CONVERSATION SUMMARY"
	recentTitle   = "RECENT MESSAGES"
	questionTitle = "QUESTION"
)

// How much of the conversation is shown, in tokens.
const (
	summaryTokens = 250
	saidTokens    = 1_200
	messageTokens = 250
)

// Write writes the input of the call: the summary and the latest messages, shortened in the middle where they are long, and
// the question. A line that looks like a title or a speaker label is quoted, so that a person's text cannot pass for
// another's words.
func Write(q Question) string {
	return conversation(q.Summary, q.Said) + questionTitle + ":\n" + quotedInput(strings.TrimSpace(q.Content))
}

// conversation writes the parts before the question.
func conversation(summary string, messages []QuestionMessage) string {
	var b strings.Builder
	if summary := strings.TrimSpace(summary); summary != "" {
		fmt.Fprintf(&b, "%s:\n%s\n\n", summaryTitle, quotedInput(text.FitCap(summary, summaryTokens)))
	}
	if said := latest(messages); len(said) > 0 {
		fmt.Fprintf(&b, "%s:\n", recentTitle)
		for _, line := range said {
			b.WriteString(line + "\n")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// latest returns the messages at the end that fit, oldest first.
func latest(said []QuestionMessage) []string {
	var lines []string
	room := saidTokens
	for _, m := range slices.Backward(said) {
		content := strings.TrimSpace(m.Content)
		if content == "" {
			continue
		}
		content, tokens := text.Clip(content, messageTokens)
		if room -= tokens + memory.LabelTokens; room < 0 {
			break
		}
		lines = append(lines, memory.Role(m.Role).Label()+": "+quotedInput(content))
	}
	slices.Reverse(lines)
	return lines
}

func quotedInput(content string) string { return text.QuoteLines(content, looksLikeInput) }

var titleWords = []string{"conversationsummary", "recentmessages", "question"}

// looksLikeInput reports whether a line looks like a title or a speaker label of the input.
func looksLikeInput(line string) bool {
	if strings.HasPrefix(line, text.QuotePrefix) {
		return false
	}
	words := text.Folded(text.Skeleton(line, text.PrefixRunes), "")
	for _, title := range titleWords {
		if strings.HasPrefix(words, text.Folded(title, "")) {
			return true
		}
	}
	return text.LooksLikeLabel(line, true)
}
