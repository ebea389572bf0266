package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
)

const (
	defaultToolTimeout = 10 * time.Second
	maxToolTimeout     = time.Minute
)

// toolsFile is the form of TOOLS_FILE.
type toolsFile struct {
	Tools []json.RawMessage `json:"tools"`
}

// toolEntry is a tool in the file. An entry without a URL is of a kind that this version does not have.
type toolEntry struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Parameters  json.RawMessage   `json:"parameters"`
	Strict      bool              `json:"strict"`
	URL         string            `json:"url"`
	Approval    bool              `json:"approval"`
	Timeout     string            `json:"timeout"`
	Variants    []string          `json:"variants"`
	Headers     map[string]string `json:"headers"`
}

// tools reads the tools of the server from the file that a variable names; nil for none. Mistakes are told by tool and member. The
// variants are those that a tool may be for.
func (r *reader) tools(name string, variants []chat.Variant) (tools []chat.ServerTool) {
	text := r.file(name, "")
	if strings.TrimSpace(text) == "" {
		return nil // file has told of one that is there
	}
	var file toolsFile
	if problem := decodeStrictly([]byte(text), &file); problem != "" || file.Tools == nil {
		r.problem(name, `must name a file with {"tools": […]}: `+cmp.Or(problem, "tools is missing"))
		return nil
	}
	size := 0
	for i, raw := range file.Tools {
		tool, wrong := r.tool(raw, variants)
		label := tool.Name
		if wrong["name"] != "" || label == "" {
			label = fmt.Sprintf("tools[%d]", i)
		}
		if slices.ContainsFunc(tools, func(other chat.ServerTool) bool { return other.Name == tool.Name }) {
			wrong["name"] = "is that of a tool before it"
		}
		for _, member := range slices.Sorted(maps.Keys(wrong)) {
			r.problem(name, "has a wrong tool, "+label+": "+strings.TrimSpace(member+" "+wrong[member]))
		}
		tools = append(tools, tool)
		size += len(tool.Name) + len(tool.Description) + len(tool.Parameters)
	}
	if len(tools) > chat.MaxTools || size > chat.MaxToolsBytes {
		r.problem(name, fmt.Sprintf("has %d tools of %d bytes: a message has %d of %d at most", len(tools), size, chat.MaxTools, chat.MaxToolsBytes))
	}
	return tools
}

// tool reads one entry, and returns what is wrong with its members, by their names.
func (r *reader) tool(raw json.RawMessage, variants []chat.Variant) (tool chat.ServerTool, wrong map[string]string) {
	var entry toolEntry
	if problem := decodeStrictly(raw, &entry); problem != "" {
		return chat.ServerTool{Function: chat.Function{Name: entry.Name}}, map[string]string{"": problem}
	}
	tool = chat.ServerTool{
		Function: chat.Function{Name: entry.Name, Description: entry.Description, Parameters: entry.Parameters, Strict: entry.Strict},
		Approval: entry.Approval, Variants: entry.Variants, URL: entry.URL, Timeout: defaultToolTimeout,
	}
	wrong = tool.Normalize()
	if address, err := url.Parse(entry.URL); err != nil || address.Host == "" || address.User != nil || address.Scheme != "http" && address.Scheme != "https" {
		wrong["url"] = "must be an http or https address without a user"
	}
	if entry.Timeout != "" {
		var err error
		if tool.Timeout, err = time.ParseDuration(entry.Timeout); err != nil || tool.Timeout <= 0 || tool.Timeout > maxToolTimeout {
			wrong["timeout"] = `must be a duration such as "10s", of 60 seconds at most`
		}
	}
	for _, named := range entry.Variants {
		if !slices.ContainsFunc(variants, func(v chat.Variant) bool { return v.Name == named }) {
			wrong["variants"] = fmt.Sprintf("names %q, which is no model variant", named)
		}
	}
	tool.Headers = map[string]string{}
	for header, value := range entry.Headers {
		var problem string
		if tool.Headers[header], problem = r.toolHeader(header, value); problem != "" {
			wrong["headers"] = fmt.Sprintf("has %q, %s", header, problem)
		}
	}
	return tool, wrong
}

// headerName is a name that may stand in a request.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ownHeaders are set with each call, or by HTTP itself.
var ownHeaders = []string{
	"Accept", "Authorization", "Connection", "Content-Length", "Content-Type", "Host", "Idempotency-Key", "Transfer-Encoding",
}

// toolHeader returns the value of the variable that a header names.
func (r *reader) toolHeader(name, value string) (header, problem string) {
	variable, named := strings.CutPrefix(value, "env:")
	switch {
	case !headerName.MatchString(name) || slices.Contains(ownHeaders, textproto.CanonicalMIMEHeaderKey(name)):
		return "", "which is no header that a tool may choose"
	case !named:
		return "", "whose value must be env: and the name of a variable"
	}
	header = r.text(variable, "")
	if header == "" || strings.ContainsAny(header, "\r\n\x00") {
		return "", "for which " + variable + " must be set, to one line"
	}
	return header, ""
}

// decodeStrictly reads one JSON value without members that the target does not have. The problem quotes no value.
func decodeStrictly(raw []byte, into any) (problem string) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, rest := decoder.Token(); errors.Is(rest, io.EOF) {
			return ""
		}
		return "has something after its end"
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return cmp.Or(wrong.Field, "it") + " has a wrong type"
	}
	if member, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return "has an unknown member " + member
	}
	return "is no JSON"
}
