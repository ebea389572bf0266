package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/jackc/pgx/v5"
)

// reader turns variables into values and collects what is wrong with them.
type reader struct {
	lookup   func(string) (string, bool)
	problems []string
}

// problem never repeats the value: it may be a secret.
func (r *reader) problem(name, what string) {
	r.problems = append(r.problems, name+" "+what)
}

func (r *reader) text(name, fallback string) string {
	if value, ok := r.lookup(name); ok && strings.TrimSpace(value) != "" {
		return strings.TrimSpace(value)
	}
	return fallback
}

func (r *reader) positive(name string, fallback int) int { return r.number(name, fallback, 1) }

// maxNumber keeps sums of settings within an int32 of Postgres.
const maxNumber = 100_000_000

func (r *reader) number(name string, fallback, least int) int {
	value := r.text(name, "")
	if value == "" {
		return fallback
	}
	number, err := strconv.Atoi(value)
	if err != nil || number < least || number > maxNumber {
		r.problem(name, fmt.Sprintf("must be a whole number from %d to %d", least, maxNumber))
		return fallback
	}
	return number
}

func (r *reader) duration(name string, fallback time.Duration) time.Duration {
	value := r.text(name, "")
	if value == "" {
		return fallback
	}
	duration, err := time.ParseDuration(value)
	if err != nil || duration <= 0 {
		r.problem(name, `must be a positive duration, such as "60s" or "10m"`)
		return fallback
	}
	return duration
}

func (r *reader) boolean(name string, fallback bool) bool {
	value := r.text(name, "")
	if value == "" {
		return fallback
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		r.problem(name, "must be true or false")
		return fallback
	}
	return on
}

func (r *reader) oneOf(name, fallback string, allowed ...string) string {
	value := r.text(name, fallback)
	if !slices.Contains(allowed, value) {
		r.problem(name, "must be one of "+strings.Join(allowed, ", "))
		return fallback
	}
	return value
}

func (r *reader) level(name string) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(r.text(name, "info"))); err != nil {
		r.problem(name, "must be one of debug, info, warn, error")
	}
	return level
}

func (r *reader) url(name string) string {
	value := r.text(name, "")
	if value == "" {
		return ""
	}
	parsed, err := url.Parse(value)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		r.problem(name, "must be an http or https address")
		return ""
	}
	return value
}

func (r *reader) dsn(name string) string {
	value := r.text(name, "")
	if value == "" {
		return ""
	}
	if _, err := pgx.ParseConfig(value); err != nil {
		r.problem(name, "must be a Postgres connection string, such as postgres://user:password@host:5432/postgres")
		return ""
	}
	return value
}

func (r *reader) address(name, fallback string) string {
	value := r.text(name, fallback)
	if value == "" {
		return "" // which is its default
	}
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		r.problem(name, `must be host:port, such as "127.0.0.1:8080" or ":8080"`)
		return fallback
	}
	if number, err := strconv.Atoi(port); err != nil || number < 0 || number > 65535 {
		r.problem(name, "must have a port from 0 to 65535")
		return fallback
	}
	return value
}

// file gives the contents of the file that a variable names.
func (r *reader) file(name, fallback string) string {
	path := r.text(name, "")
	if path == "" {
		return fallback
	}
	contents, err := os.ReadFile(path)
	if err != nil {
		r.problem(name, "names a file that cannot be read"+reason(err))
		return fallback
	}
	if strings.TrimSpace(string(contents)) == "" {
		r.problem(name, "names an empty file")
		return fallback
	}
	return string(contents)
}

// reason says why a file cannot be read, without its name: somebody may have put the text there.
func reason(err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return ": " + failed.Err.Error()
	}
	return ""
}

// leastWindow is the smallest context window that a reply and some history can share.
const leastWindow = 1000

// variants reads "name=model,name=model@window".
func (r *reader) variants(name, fallback string) []chat.Variant {
	var variants []chat.Variant
	for pair := range strings.SplitSeq(r.text(name, fallback), ",") {
		variant, model, found := strings.Cut(strings.TrimSpace(pair), "=")
		variant, model = strings.TrimSpace(variant), strings.TrimSpace(model)
		if !found || variant == "" || model == "" {
			r.problem(name, `must be a list such as "arco=gpt-5.6-terra,arco-pro=gpt-5.6-sol"`)
			return nil
		}
		if slices.ContainsFunc(variants, func(v chat.Variant) bool { return v.Name == variant }) {
			r.problem(name, "names a variant twice")
			return nil
		}
		model, window, ok := r.window(name, model)
		if !ok {
			return nil
		}
		variants = append(variants, chat.Variant{Name: variant, Model: model, Window: window})
	}
	return variants
}

// window takes "@window" off a model. A model's own name may hold an @, as long as no number follows.
func (r *reader) window(name, model string) (rest string, window int, ok bool) {
	at := strings.LastIndexByte(model, '@')
	if at < 0 || strings.Trim(model[at+1:], "0123456789") != "" {
		return model, memory.DefaultWindow, true
	}
	window, err := strconv.Atoi(model[at+1:])
	if err != nil || window < leastWindow || window > maxNumber || at == 0 {
		r.problem(name, fmt.Sprintf("gives a model a context window that is not between %d and %d tokens", leastWindow, maxNumber))
		return "", 0, false
	}
	return model[:at], window, true
}
