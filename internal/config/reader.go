package config

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/jackc/pgx/v5"
)

// reader parses variables and collects their problems.
type reader struct {
	lookup   func(string) (string, bool)
	problems []string
	warnings []string // of settings without effect
}

// problem must not contain the value, which may be a secret.
func (r *reader) problem(name, what string) {
	r.problems = append(r.problems, name+" "+what)
}

func (r *reader) text(name, fallback string) string {
	if value, ok := r.lookup(name); ok && strings.TrimSpace(value) != "" {
		return strings.TrimSpace(value)
	}
	return fallback
}

// orNone reads a name of which "none" stands for none: an empty value counts as absent.
func (r *reader) orNone(name, fallback string) string {
	if value := r.text(name, fallback); value != "none" {
		return value
	}
	return ""
}

// readValue returns the value of a variable, or fallback if it is absent. If valid is false it records the problem.
func readValue[T any](r *reader, name string, fallback T, problem string, parse func(string) (value T, valid bool)) T {
	text := r.text(name, "")
	if text == "" {
		return fallback
	}
	value, valid := parse(text)
	if !valid {
		r.problem(name, problem)
		return fallback
	}
	return value
}

// maxNumber keeps sums of settings within Postgres's integer.
const maxNumber = 100_000_000

func (r *reader) number(name string, fallback, least, most int) int {
	problem := fmt.Sprintf("must be a whole number from %d to %d", least, most)
	return readValue(r, name, fallback, problem, func(text string) (int, bool) {
		number, err := strconv.Atoi(text)
		return number, err == nil && number >= least && number <= most
	})
}

func (r *reader) positive(name string, fallback int) int {
	return r.number(name, fallback, 1, maxNumber)
}

// orOff reads a number of which 0 turns something off.
func (r *reader) orOff(name string, fallback int) int { return r.number(name, fallback, 0, maxNumber) }

func (r *reader) duration(name string, fallback time.Duration) time.Duration {
	return readValue(r, name, fallback, `must be a positive duration, such as "60s" or "10m"`, func(text string) (time.Duration, bool) {
		duration, err := time.ParseDuration(text)
		return duration, err == nil && duration > 0
	})
}

// fraction reads a similarity.
func (r *reader) fraction(name string, fallback float64) float64 {
	return readValue(r, name, fallback, "must be a number from 0 to 1", func(text string) (float64, bool) {
		number, err := strconv.ParseFloat(text, 64)
		return number, err == nil && number >= 0 && number <= 1
	})
}

func (r *reader) boolean(name string, fallback bool) bool {
	return readValue(r, name, fallback, "must be true or false", func(text string) (bool, bool) {
		on, err := strconv.ParseBool(text)
		return on, err == nil
	})
}

// CellName is what a cell may be called.
var CellName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

func (r *reader) cell() auth.Cell {
	name := readValue(r, "CELL", "", "must be 1 to 32 lower-case letters, digits and hyphens, of which the first is no hyphen",
		func(text string) (string, bool) { return text, CellName.MatchString(text) })
	return auth.Cell{Name: name, AdmitsNew: r.boolean("CELL_ADMITS_NEW", false)}
}

func (r *reader) oneOf(name, fallback string, allowed ...string) string {
	return readValue(r, name, fallback, "must be one of "+strings.Join(allowed, ", "), func(text string) (string, bool) {
		return text, slices.Contains(allowed, text)
	})
}

func (r *reader) level(name string) slog.Level {
	return readValue(r, name, slog.LevelInfo, "must be one of debug, info, warn, error", func(text string) (level slog.Level, valid bool) {
		err := level.UnmarshalText([]byte(text))
		return level, err == nil
	})
}

func (r *reader) url(name string) string {
	return readValue(r, name, "", "must be an http or https address", func(text string) (string, bool) {
		return text, isWebAddress(text)
	})
}

func isWebAddress(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Host != "" && (parsed.Scheme == "http" || parsed.Scheme == "https")
}

func (r *reader) dsn(name string) string {
	return readValue(r, name, "", "must be a Postgres connection string, such as postgres://user:password@host:5432/postgres",
		func(text string) (string, bool) {
			_, err := pgx.ParseConfig(text)
			return text, err == nil
		})
}

func (r *reader) address(name, fallback string) string {
	return readValue(r, name, fallback, `must be host:port, such as "127.0.0.1:8080" or ":8080"`, func(text string) (string, bool) {
		_, port, err := net.SplitHostPort(text)
		_, errPort := strconv.ParseUint(port, 10, 16)
		return text, err == nil && errPort == nil
	})
}

// file returns the contents of the file that a variable names.
func (r *reader) file(name, fallback string) string {
	path := r.text(name, "")
	if path == "" {
		return fallback
	}
	contents, err := os.ReadFile(path)
	if err != nil {
		r.problem(name, "names a file that cannot be read"+reason(err))
	} else if strings.TrimSpace(string(contents)) == "" {
		r.problem(name, "names an empty file")
	}
	return string(contents)
}

// folder reads the files of a folder that have one of these names, and the ending .md.
func (r *reader) folder(name string, files []string) map[string]string {
	path := r.text(name, "")
	if path == "" {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		r.problem(name, "names a folder that cannot be read"+reason(err))
		return nil
	}
	found, known := map[string]string{}, len(r.problems)
	for _, entry := range entries {
		file, isText := strings.CutSuffix(entry.Name(), ".md")
		contents, err := os.ReadFile(filepath.Join(path, entry.Name()))
		switch {
		case !isText:
		case !slices.Contains(files, file):
			r.problem(name, "has a file "+entry.Name()+"; those it may have: "+strings.Join(files, ".md, ")+".md")
		case err != nil:
			r.problem(name, "has a file "+entry.Name()+" that cannot be read"+reason(err))
		case strings.TrimSpace(string(contents)) == "":
			r.problem(name, "has a file "+entry.Name()+" that is empty")
		default:
			found[file] = string(contents)
		}
	}
	if len(found) == 0 && len(r.problems) == known {
		r.problem(name, "names a folder without "+strings.Join(files, ".md, ")+".md")
	}
	return found
}

// reason returns why a file cannot be read, without its name: a variable may hold the text itself by mistake.
func reason(err error) string {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return ": " + failed.Err.Error()
	}
	return ""
}

// smallestWindow returns the context window that every model has: a chat may be continued with any.
func smallestWindow(variants []chat.Variant) int {
	smallest := slices.MinFunc(variants, func(a, b chat.Variant) int { return cmp.Compare(a.Window, b.Window) })
	return smallest.Window
}

// leastWindow is the smallest context window, in tokens, with room for a reply and some history.
const leastWindow = 1000

// variants reads "name=model,name=model@window".
func (r *reader) variants(name, fallback string) []chat.Variant {
	var variants []chat.Variant
	for pair := range strings.SplitSeq(r.text(name, fallback), ",") {
		variant, model, _ := strings.Cut(pair, "=")
		v := chat.Variant{Name: strings.TrimSpace(variant), Model: strings.TrimSpace(model), Window: memory.DefaultWindow}
		// A model's own name may contain an @ that is not followed by a number.
		if at := strings.LastIndexByte(v.Model, '@'); at >= 0 && strings.Trim(v.Model[at+1:], "0123456789") == "" {
			v.Window, _ = strconv.Atoi(v.Model[at+1:]) // 0 without a digit, the highest for too many
			v.Model = v.Model[:at]
		}
		switch {
		case v.Name == "" || v.Model == "":
			r.problem(name, `must be a list such as "arco=gpt-5.6-terra,arco-pro=gpt-5.6-sol"`)
			return nil
		case v.Window < leastWindow || v.Window > maxNumber:
			r.problem(name, fmt.Sprintf("gives a model a context window that is not between %d and %d tokens", leastWindow, maxNumber))
			return nil
		case slices.ContainsFunc(variants, func(other chat.Variant) bool { return other.Name == v.Name }):
			r.problem(name, "names a variant twice")
			return nil
		}
		variants = append(variants, v)
	}
	return variants
}

// list reads "a,b"; nil for none.
func (r *reader) list(name string) []string {
	split := func(c rune) bool { return c == ',' || c == ' ' }
	if found := strings.FieldsFunc(r.text(name, ""), split); len(found) > 0 {
		return found
	}
	return nil
}

// issuers reads "URL jwks=URL aud=TEXT, URL"; nil for none. The project's own is none of them.
func (r *reader) issuers(name, project string) (list []auth.Issuer) {
	text := r.text(name, "")
	if text == "" {
		return nil
	}
	for i, entry := range strings.Split(text, ",") {
		problem := func(what string) { r.problem(name, fmt.Sprintf("entry %d %s", i+1, what)) }
		address, options, _ := strings.Cut(strings.TrimSpace(entry), " ")
		issuer := auth.Issuer{Name: address}
		for option := range strings.FieldsSeq(options) {
			switch key, value, _ := strings.Cut(option, "="); {
			case key == "jwks" && auth.CheckURL(value) == nil:
				issuer.KeySetURL = value
			case key == "aud" && value != "":
				issuer.Audience = value
			default:
				problem("must be the issuer's URL, then perhaps jwks=URL and aud=TEXT, parted by spaces")
			}
		}
		switch known := func(other auth.Issuer) bool { return other.Name == issuer.Name }; {
		case auth.CheckURL(issuer.Name) != nil || len(issuer.Name) > auth.MaxIssuer:
			problem("must begin with the issuer's address, exactly as iss in its tokens, of at most 255 characters")
		case project != "" && issuer.Name == strings.TrimRight(project, "/")+"/auth/v1":
			problem("is the project of SUPABASE_URL, whose tokens are good anyway")
		case slices.ContainsFunc(list, known):
			problem("names an issuer for the second time")
		}
		list = append(list, issuer)
	}
	return list
}

// anyOrigin allows every origin.
const anyOrigin = "*"

// origins reads "*" or "origin,origin"; nil for none.
func (r *reader) origins(name, fallback string) []string {
	list := r.text(name, fallback)
	if list == "" {
		return nil
	}
	origins := strings.Split(strings.ToLower(list), ",") // as browsers write it
	for i, origin := range origins {
		origins[i] = strings.TrimSpace(origin)
		if list != anyOrigin && !isOrigin(origins[i]) {
			r.problem(name, `must be "*", or a list of scheme, host and perhaps port without a path, such as "https://app.example.com,http://localhost:3000"`)
			return nil
		}
	}
	return origins
}

// isOrigin reports whether text is an origin exactly as browsers send it (RFC 6454, section 6.2). Anything else
// would never match, and patterns are not supported.
func isOrigin(text string) bool {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" || parsed.Hostname() == "" || strings.ContainsAny(text, "*? ") {
		return false
	}
	defaultPort := parsed.Scheme == "https" && parsed.Port() == "443" || parsed.Scheme == "http" && parsed.Port() == "80"
	return !defaultPort && text == parsed.Scheme+"://"+parsed.Host
}

// isSecret reports whether a key of a Supabase project lets its owner past row-level security.
func isSecret(key string) bool {
	if strings.HasPrefix(key, "sb_secret_") {
		return true
	}
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return false
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1]) // a text that is no key has no role
	var claims struct{ Role string }
	_ = json.Unmarshal(payload, &claims)
	return claims.Role != "" && claims.Role != "anon"
}
