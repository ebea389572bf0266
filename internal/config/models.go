package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/work"
)

// Server is how the model of a variant in MODELS_FILE is called.
type Server struct {
	BaseURL string // "" for the server of OPENAI_BASE_URL, and then an APIKey of "" stands for OPENAI_API_KEY
	APIKey  string
	Chat    bool // by Chat Completions
	Effort  string
	// ReasoningSummary asks for summaries of the model's reasoning.
	ReasoningSummary bool
}

// modelEntry is a variant in MODELS_FILE.
type modelEntry struct {
	Name             string      `json:"name"`
	Model            string      `json:"model"`
	Window           int         `json:"window"`
	BaseURL          string      `json:"base_url"`
	APIKeyEnv        string      `json:"api_key_env"`
	API              string      `json:"api"`
	Fallback         string      `json:"fallback"`
	Reasoning        string      `json:"reasoning"`
	ReasoningSummary string      `json:"reasoning_summary"`
	Price            *priceEntry `json:"price"`
	Files            string      `json:"files"`
	ImageTokens      *int        `json:"image_tokens"`
}

// priceEntry is in dollars for a million tokens.
type priceEntry struct {
	Input  *float64 `json:"input"`
	Cached *float64 `json:"cached"` // that of input by default
	Output *float64 `json:"output"`
}

// models reads the variants of both variables. Those of the file come first, and beside it MODEL_VARIANTS has no default.
func (r *reader) models() ([]chat.Variant, map[string]Server) {
	contents := r.file("MODELS_FILE", "")
	if strings.TrimSpace(contents) == "" {
		return r.variants("MODEL_VARIANTS", DefaultVariants), nil
	}
	f := modelsFile{reader: r, name: filepath.Base(r.text("MODELS_FILE", "")), servers: map[string]Server{}}
	f.read([]byte(contents))
	if r.text("MODEL_VARIANTS", "") != "" {
		for _, short := range r.variants("MODEL_VARIANTS", "") {
			if !f.isKnown(short.Name) {
				f.variants = append(f.variants, short)
			}
		}
	}
	f.checkFallbacks()
	return f.variants, f.servers
}

// modelsFile is a MODELS_FILE that is read.
type modelsFile struct {
	*reader

	name     string
	variants []chat.Variant
	servers  map[string]Server
}

func (f *modelsFile) wrong(place, what string) { f.problem("MODELS_FILE", f.name+": "+place+what) }

func (f *modelsFile) read(contents []byte) {
	var file struct {
		Variants []json.RawMessage `json:"variants"`
	}
	if what := decode(contents, &file); what != "" {
		f.wrong("", what)
		return
	}
	if len(file.Variants) == 0 {
		f.wrong("", "variants must name one at least")
	}
	for n, raw := range file.Variants {
		entry := modelEntry{Window: memory.DefaultWindow, API: "responses"}
		what := decode(raw, &entry)
		place := fmt.Sprintf("variant %d: ", n+1)
		if entry.Name != "" {
			place = fmt.Sprintf("variant %q: ", entry.Name)
		}
		if what == "" {
			what = f.add(entry)
		}
		if what != "" {
			f.wrong(place, what)
		}
	}
}

// add adds a variant. It returns the mistake, "" for none.
func (f *modelsFile) add(entry modelEntry) (problem string) {
	key := ""
	if entry.APIKeyEnv != "" {
		key = f.text(entry.APIKeyEnv, "")
	}
	for _, wrong := range []struct {
		holds   bool
		problem string
	}{
		{strings.TrimSpace(entry.Name) == "", "name is missing"},
		{strings.TrimSpace(entry.Model) == "", "model is missing"},
		{f.isKnown(entry.Name), "name is another variant's, too"},
		{entry.Window < leastWindow || entry.Window > maxNumber, fmt.Sprintf("window must be from %d to %d tokens", leastWindow, maxNumber)},
		{entry.BaseURL != "" && !isWebAddress(entry.BaseURL), "base_url must be an http or https address"},
		{entry.APIKeyEnv != "" && key == "", "api_key_env names a variable that is not set"},
		{entry.API != "responses" && entry.API != "chat", "api must be responses or chat"},
		{entry.ReasoningSummary != "" && entry.ReasoningSummary != "auto", "reasoning_summary must be auto"},
		{entry.ReasoningSummary != "" && entry.API == "chat", "reasoning_summary has no effect with api chat"},
		{entry.Files != "" && entry.Files != "url" && entry.Files != "base64", "files must be url or base64"},
		{entry.ImageTokens != nil && (*entry.ImageTokens < 1 || *entry.ImageTokens > maxNumber), "image_tokens must be a positive number"},
	} {
		if wrong.holds {
			return wrong.problem
		}
	}
	if entry.Files != "" || entry.ImageTokens != nil {
		f.warnings = append(f.warnings, fmt.Sprintf("files and image_tokens of variant %q have no effect: models are sent no images", entry.Name))
	}
	price, problem := entry.Price.read()
	f.variants = append(f.variants, chat.Variant{
		Name: entry.Name, Model: entry.Model, Window: entry.Window, Fallback: entry.Fallback, ReasoningSummary: entry.ReasoningSummary != "", Price: price,
	})
	f.servers[entry.Name] = Server{
		BaseURL: entry.BaseURL, APIKey: key, Chat: entry.API == "chat", Effort: entry.Reasoning, ReasoningSummary: entry.ReasoningSummary != "",
	}
	return problem
}

func (f *modelsFile) isKnown(name string) bool {
	return slices.ContainsFunc(f.variants, func(v chat.Variant) bool { return v.Name == name })
}

// checkFallbacks follows each fallback, as far as there are variants.
func (f *modelsFile) checkFallbacks() {
	next := map[string]string{}
	for _, variant := range f.variants {
		next[variant.Name] = variant.Fallback
	}
	for _, variant := range f.variants {
		place := fmt.Sprintf("variant %q: ", variant.Name)
		if _, known := next[variant.Fallback]; variant.Fallback != "" && !known {
			f.wrong(place, "fallback is no variant")
		}
		at := variant.Fallback
		for range f.variants {
			if at == variant.Name {
				f.wrong(place, "fallback leads back to it")
				break
			}
			at = next[at]
		}
	}
}

// read returns the price. It is exact: a price has six decimals at most.
func (p *priceEntry) read() (price work.Price, problem string) {
	if p == nil {
		return price, ""
	}
	if p.Cached == nil {
		p.Cached = p.Input
	}
	for _, member := range []struct {
		name    string
		dollars *float64
		to      *int64
	}{{"input", p.Input, &price.Input}, {"cached", p.Cached, &price.Cached}, {"output", p.Output, &price.Output}} {
		const unit = 1_000_000
		if member.dollars == nil {
			return price, "price." + member.name + " is missing"
		}
		exact := math.Round(*member.dollars * unit)
		if *member.dollars < 0 || *member.dollars > work.MaxPrice || exact/unit != *member.dollars {
			return price, fmt.Sprintf("price.%s must be from 0 to %d dollars for a million tokens, with six decimals at most", member.name, work.MaxPrice)
		}
		*member.to = int64(exact)
	}
	return price, ""
}

// decode reads JSON with the members of a struct and no others. It returns the mistake, without values: any may be a secret.
func decode(raw []byte, into any) (problem string) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		err = json.Unmarshal(raw, new(any)) // there may be something behind it
	}
	if broken, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("is no JSON, see line %d", 1+bytes.Count(raw[:min(int(broken.Offset), len(raw))], []byte("\n")))
	}
	if other, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return strings.TrimSpace(other.Field + " must be " + kindInWords(other.Type))
	}
	if unknown, ok := strings.CutPrefix(fmt.Sprint(err), "json: unknown field "); ok {
		return "has an unknown member " + unknown
	}
	if err != nil { // it ends too early
		return "is no JSON"
	}
	return ""
}

func kindInWords(of reflect.Type) string {
	switch of.Kind() { //nolint:exhaustive // of the members that there are
	case reflect.String:
		return "a text"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
