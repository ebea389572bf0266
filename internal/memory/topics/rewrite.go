package topics

import (
	"cmp"
	"context"
	_ "embed" // the instructions
	"strings"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
)

// Purpose is what the calls say that they are for.
const Purpose = "rewrite"

// Longest is how many characters a question has at most that is rewritten, and what becomes of it.
const Longest = 500

//go:embed instructions/rewrite.md
var instructions string

// Instructions returns the instructions of the call.
func Instructions() string { return strings.TrimSpace(instructions) }

// Model answers in plain text. An answer without text is "", and no error.
type Model interface {
	Write(ctx context.Context, question work.Question) (work.Answer, error)
}

// RewriterConfig of a Rewriter. All fields are required except where noted.
type RewriterConfig struct {
	Writer Model
	// Instructions replace the built-in ones; "" for those.
	Instructions string
	// Model answers.
	Model   string
	Metrics *metrics.Metrics
	// Timeout bounds the call. Defaults to 20 s.
	Timeout time.Duration
}

// Rewriter makes questions stand alone. It is safe for concurrent use.
type Rewriter struct{ RewriterConfig }

// NewRewriter returns a rewriter.
func NewRewriter(config RewriterConfig) *Rewriter {
	config.Timeout = cmp.Or(config.Timeout, 20*time.Second)
	return &Rewriter{RewriterConfig: config}
}

// Question is a question as it was asked, with what was said before.
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
// said before it asks nobody. It returns an error only if the call fails.
func (r *Rewriter) Rewrite(ctx context.Context, q Question) (string, bool, error) {
	asked := strings.TrimSpace(q.Content)
	if asked == "" || utf8.RuneCountInString(asked) > Longest || strings.TrimSpace(q.Summary) == "" && !anySaid(q.Said) {
		return q.Content, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	answer, err := r.Writer.Write(ctx, work.Question{
		Purpose: Purpose, Model: r.Model, Instructions: cmp.Or(strings.TrimSpace(r.RewriterConfig.Instructions), Instructions()),
		Input: Write(q), CacheKey: q.ChatID, UserID: q.UserID,
	})
	if err != nil {
		return "", false, err
	}
	r.Metrics.CountTokens(Purpose, answer.InputTokens, answer.CachedTokens, answer.OutputTokens)
	rewritten, ok := clean(answer.Text)
	if !ok || rewritten == text.OneLine(asked) {
		return q.Content, false, nil
	}
	return rewritten, true, nil
}

func anySaid(said []QuestionMessage) bool {
	for _, m := range said {
		if strings.TrimSpace(m.Content) != "" {
			return true
		}
	}
	return false
}

// quotation marks that a model may put around its answer, and their ends.
var marks = map[string]string{`"`: `"`, "“": "”", "„": "“", "«": "»", "`": "`", "'": "'", "‘": "’", "「": "」"}

// clean returns an answer on one line, without marks around it and without the title of the input before it. It is none if
// it is empty, too long, or what the gate of summaries refuses: it declines, says nothing, or talks about the task.
func clean(answer string) (string, bool) {
	answer = strings.TrimSpace(answer)
	if _, passed := brief.Judge("", answer); !passed {
		return "", false
	}
	if name, words := text.LabelOf(answer); words == "question" || words == "standalonequestion" {
		if _, rest, found := strings.Cut(answer, ":"); found && name != "" {
			answer = strings.TrimSpace(rest)
		}
	}
	answer = text.OneLine(answer)
	for opening, closing := range marks {
		inner, opened := strings.CutPrefix(answer, opening)
		inner, closed := strings.CutSuffix(inner, closing)
		if opened && closed && !strings.Contains(inner, closing) {
			answer = strings.TrimSpace(inner)
			break
		}
	}
	if length := utf8.RuneCountInString(answer); length == 0 || length > Longest {
		return "", false
	}
	return answer, true
}
