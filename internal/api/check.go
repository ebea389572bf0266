package api

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// Strategies by which a chat is remembered; the first is the default.
var Strategies = []string{string(memory.StrategySummary), string(memory.StrategySimple), string(memory.StrategyHybrid)}

// TopicChoices say when a chat is divided into topics; the first is the default.
var TopicChoices = []string{"auto", "on", "off"}

// RecallChoices say whose turns the prompts of a chat may quote; the first is the default.
var RecallChoices = []string{"all", "chat"}

// problems are the fields of a request that are out of range, with the fault of each.
type problems map[string]any

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return &fault.Error{Code: fault.ValidationFailed, Message: "Some fields are missing or out of range.", Details: p}
}

// Check sets a number that a request leaves out to the default in its tag, runs the request's own rules, which
// no tag can say, and reports the fields that are not as their tags say. Besides the words of JSON schema it
// knows trim, for a text without the space around it, and each and most: a list of at most so many texts, each of at most
// so many characters, of which it keeps one of each, trimmed.
func Check(request any) error {
	wrong := problems{}
	if own, ok := request.(interface{ check(wrong problems) }); ok {
		own.check(wrong)
	}
	wrong.fields("", reflect.ValueOf(request).Elem())
	err := wrong.err()
	if ids, ok := request.(interface{ readIDs() error }); ok && err == nil {
		err = ids.readIDs()
	}
	return err
}

// fields checks the fields of a struct whose path is prefix.
func (p problems) fields(prefix string, of reflect.Value) {
	for _, field := range reflect.VisibleFields(of.Type()) {
		name, _, _ := strings.Cut(cmp.Or(field.Tag.Get("json"), field.Tag.Get("query")), ",")
		if isField := name != "" && name != "-"; isField && p[prefix+name] == nil {
			name = prefix + name
			p.field(name, of.FieldByIndex(field.Index), field.Tag)
		}
	}
}

func (p problems) field(name string, given reflect.Value, tag reflect.StructTag) {
	value, required := valueOf(given), tag.Get("required") != ""
	if _, trimmed := tag.Lookup("trim"); trimmed && value.IsValid() {
		value.SetString(strings.TrimSpace(value.String()))
	}
	plain := value.IsValid() && value.Type() == given.Type()
	switch {
	case !value.IsValid():
		if required {
			p[name] = "is missing"
		}
		return
	case tag.Get("each") != "":
		p.texts(name, value, tag)
		return
	case plain && value.IsZero() && !required:
		if value.Kind() == reflect.Int {
			number, _ := strconv.ParseInt(tag.Get("default"), 10, 64) // 0 for no default
			value.SetInt(number)
		}
		return
	}
	if problem := Problem(value, tag); problem != "" {
		p[name] = problem
	} else if value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct {
		for i := range value.Len() {
			p.fields(fmt.Sprintf("%s[%d].", name, i), value.Index(i))
		}
	}
}

// valueOf returns the value in a pointer or a Field; invalid for none.
func valueOf(given reflect.Value) reflect.Value {
	if _, optional := reflect.TypeAssert[interface{ Target() any }](given.Addr()); optional {
		given = given.FieldByName("Value")
	}
	if given.Kind() == reflect.Pointer {
		return given.Elem()
	}
	return given
}

// Problem returns why a value is not as its tag says; "" if it is. In no text or map Postgres can store U+0000.
func Problem(value reflect.Value, tag reflect.StructTag) string {
	switch value.Kind() {
	case reflect.String:
		return textProblem(value.String(), tag)
	case reflect.Int, reflect.Int64:
		return numberProblem("", float64(value.Int()), tag.Get("minimum"), tag.Get("maximum"))
	case reflect.Float64:
		return numberProblem("", value.Float(), tag.Get("minimum"), tag.Get("maximum"))
	case reflect.Map:
		if memory.HoldsNUL(value.Interface()) {
			return containsNUL
		}
	case reflect.Slice:
		for i := range value.Len() {
			if element := value.Index(i); element.Kind() == reflect.Map && memory.HoldsNUL(element.Interface()) {
				return containsNUL
			}
		}
		return numberProblem("the number of entries ", float64(value.Len()), tag.Get("minItems"), tag.Get("maxItems"))
	}
	return ""
}

const containsNUL = "must not contain the character U+0000"

func textProblem(text string, tag reflect.StructTag) string {
	least, most, words := tag.Get("minLength"), tag.Get("maxLength"), tag.Get("enum")
	longest, bounded := strconv.Atoi(most)
	switch length := utf8.RuneCountInString(text); {
	case !utf8.ValidString(text):
		return "must be UTF-8"
	case memory.HoldsNUL(text):
		return containsNUL
	case words != "" && !slices.Contains(strings.Split(words, ","), text):
		return "must be one of " + strings.ReplaceAll(words, ",", ", ")
	case least != "" && length == 0 && tag.Get("query") != "":
		return "must have " + least + " to " + most + " characters"
	case least != "" && length == 0:
		return "must not be empty"
	case bounded == nil && length > longest:
		return fmt.Sprintf("has %d characters, at most %s are accepted", length, most)
	}
	return ""
}

// numberProblem is written so that NaN is refused.
func numberProblem(what string, number float64, minimum, maximum string) string {
	least, errLeast := strconv.ParseFloat(minimum, 64)
	most, errMost := strconv.ParseFloat(maximum, 64)
	switch {
	case errMost == nil && !(number <= most && number >= least):
		return what + "must be between " + cmp.Or(minimum, "0") + " and " + maximum
	case errLeast == nil && !(number >= least):
		return what + "must be at least " + minimum
	}
	return ""
}

// texts keeps one of each text, without the space around it.
func (p problems) texts(name string, list reflect.Value, tag reflect.StructTag) {
	unique := []string{}
	for i := range list.Len() {
		text := strings.TrimSpace(list.Index(i).String())
		each := reflect.StructTag(`minLength:"1" maxLength:"` + tag.Get("each") + `"`)
		if problem := textProblem(text, each); problem != "" {
			p[fmt.Sprintf("%s[%d]", name, i)] = problem
		} else if !slices.Contains(unique, text) {
			unique = append(unique, text)
		}
	}
	list.Set(reflect.ValueOf(unique))
	if most := tag.Get("most"); most != "" && numberProblem("", float64(len(unique)), "0", most) != "" {
		p[name] = "has more than " + most + " entries"
	}
}

// Check fills in the settings that the chat leaves out and reports the fields that are out of range.
func (c *NewChat) Check(defaults memory.ChatDefaults) error {
	if c.ToolName != nil {
		defaults = defaults.For(*c.ToolName)
	}
	c.MemoryStrategy = cmp.Or(c.MemoryStrategy, string(defaults.Strategy), Strategies[0])
	c.TTLHours = orDefault(c.TTLHours, defaults.TTLHours)
	c.MaxTurns = orDefault(c.MaxTurns, defaults.MaxTurns)
	c.Topics = cmp.Or(c.Topics, TopicChoices[0])
	c.Recall = cmp.Or(c.Recall, RecallChoices[0])
	return Check(c)
}

// orDefault returns a field that is set as it is, and otherwise the default; 0 is none.
func orDefault(field Field[int], value int) Field[int] {
	if field.Set || value == 0 {
		return field
	}
	return To(value)
}
