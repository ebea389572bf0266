package offline

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Both APIs refuse what they do not know.
var (
	responsesParameters = wordSet(`background context_management conversation include input instructions max_output_tokens max_tool_calls
		metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options
		prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text
		tool_choice tools top_logprobs top_p truncation user`)
	chatParameters = wordSet(`messages model audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens metadata modalities n
		parallel_tool_calls prediction presence_penalty prompt_cache_key reasoning_effort response_format safety_identifier seed service_tier
		stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity`)
	toolParameters = wordSet("type name description parameters strict")
	includable     = wordSet("reasoning.encrypted_content message.output_text.logprobs file_search_call.results web_search_call.action.sources")
)

const includeReasoning = "reasoning.encrypted_content"

func refuse(param, code, format string, args ...any) *apiError {
	return &apiError{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Type: invalidRequest, Param: param, Code: code}
}

func invalid(param string) *apiError {
	return refuse(param, "invalid_value", "Invalid value for '%s'.", param)
}

func unknown(param string) *apiError {
	return refuse(param, "unknown_parameter", "Unknown parameter: '%s'.", param)
}

// checkNames refuses the first name that is not known.
func checkNames(place string, given object, known map[string]bool) *apiError {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !known[name] {
			return unknown(place + name)
		}
	}
	return nil
}

// unwelcome returns a parameter of the request that the options refuse, "" for none.
func (s *Server) unwelcome(body object) string {
	for _, name := range s.options.Refuses {
		if _, there := body[name]; there || name == "strict" && anyStrict(body["tools"]) {
			return name
		}
	}
	return ""
}

func anyStrict(tools any) bool {
	all, _ := tools.([]any)
	return slices.ContainsFunc(all, func(one any) bool {
		tool, _ := one.(object)
		function, _ := tool["function"].(object)
		_, there := tool["strict"]
		_, inside := function["strict"]
		return there || inside
	})
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// readTools notes the tools that a request offers and refuses malformed ones.
func (r *Request) readTools(body object) *apiError {
	tools, isList := body["tools"].([]any)
	if !isList && body["tools"] != nil {
		return invalid("tools")
	}
	for n, tool := range tools {
		if refusal := r.readTool(fmt.Sprintf("tools[%d]", n), tool); refusal != nil {
			return refusal
		}
	}
	if given := body["tool_choice"]; given != nil {
		r.Choice, _ = given.(string)
		if !slices.Contains([]string{"auto", "none", "required"}, r.Choice) {
			return invalid("tool_choice")
		}
		if len(tools) == 0 {
			return refuse("tool_choice", "", "'tool_choice' is only allowed when 'tools' are specified.")
		}
	}
	for _, one := range r.Include {
		if !includable[one] {
			return invalid("include")
		}
	}
	return nil
}

func (r *Request) readTool(place string, given any) *apiError {
	tool, _ := given.(object)
	if tool["type"] != "function" {
		return invalid(place)
	}
	if r.API == APIChat {
		if refusal := checkNames(place+".", tool, wordSet("type function")); refusal != nil {
			return refusal
		}
		tool, _ = tool["function"].(object)
	}
	name, _ := tool["name"].(string)
	if !toolName.MatchString(name) || slices.Contains(r.Tools, name) {
		return invalid(place + ".name")
	}
	if refusal := checkNames(place+".", tool, toolParameters); refusal != nil {
		return refusal
	}
	r.Tools = append(r.Tools, name)
	schema, isObject := tool["parameters"].(object)
	problem := ""
	switch {
	case tool["parameters"] != nil && (!isObject || schema["type"] != "object"):
		problem = `schema must be a JSON Schema of 'type: "object"'`
	case tool["strict"] == true:
		problem = notStrict(schema)
	}
	if problem != "" {
		return refuse(place+".parameters", "invalid_function_parameters", "Invalid schema for function '%s': %s.", name, problem)
	}
	return nil
}

// notStrict returns why a schema is none that a model can be held to, "" where it is one.
func notStrict(schema object) string {
	properties, hasProperties := schema["properties"].(object)
	if schema["type"] == "object" || hasProperties {
		required, _ := schema["required"].([]any)
		if schema["additionalProperties"] != false {
			return "'additionalProperties' is required to be supplied and to be false"
		}
		for name := range properties {
			if !slices.Contains(required, any(name)) {
				return "'required' is required to be an array including every key in properties"
			}
		}
	}
	inner := slices.Collect(maps.Values(properties))
	inner = append(inner, schema["items"])
	if some, ok := schema["anyOf"].([]any); ok {
		inner = append(inner, some...)
	}
	if named, ok := schema["$defs"].(object); ok {
		inner = slices.AppendSeq(inner, maps.Values(named))
	}
	for _, one := range inner {
		if part, ok := one.(object); ok {
			if problem := notStrict(part); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// said is what comes back of an earlier step: an item of the model, or the output of a call. Others are the zero value.
type said struct {
	kind       string
	callID     string
	name, text string // of a call, its arguments; the text of a message or an output
	phase      string
	sealed     string
}

func (one said) ofModel() bool { return one.kind != "" && one.kind != kindOutput }

// shape is what has to come back as it was said: on the wire of Chat Completions a message with its calls.
func shape(api API, step []said) string {
	text, shapes := "", [][]string{}
	for _, one := range step {
		switch {
		case one.kind == kindMessage && api == APIChat:
			text += one.text
		case one.kind == kindReasoning && (api == APIChat || one.sealed == ""):
		default:
			shapes = append(shapes, []string{one.kind, one.name, one.text, one.phase, one.sealed})
		}
	}
	return string(mustJSON([]any{api, text, shapes}))
}

// remember keeps a step with calls, which is to come back.
func (s *Server) remember(items []*output) {
	var step []said
	for _, o := range items {
		step = append(step, said{kind: o.kind, name: o.name, text: o.text, phase: o.phase, sealed: o.sealed})
	}
	if slices.ContainsFunc(step, func(one said) bool { return one.kind == kindCall }) {
		s.steps.Store(shape(APIResponses, step), true)
		s.steps.Store(shape(APIChat, step), true)
	}
}

// readSteps reads the steps that come back. What no API refuses and our contract forbids is noted as irregular.
func (s *Server) readSteps(r *Request, all []said) *apiError {
	r.Outputs = map[string]string{}
	called := map[string]bool{}
	var step []said
	for n, one := range all {
		switch {
		case one.kind == kindCall && called[one.callID]:
			return refuse("input", "invalid_value", "Duplicate function call with call_id %s.", one.callID)
		case one.kind == kindOutput && !called[one.callID]:
			return refuse("input", "", "No tool call found for function call output with call_id %s.", one.callID)
		case one.kind == kindOutput && has(r.Outputs, one.callID):
			return refuse("input", "invalid_value", "Duplicate function call output with call_id %s.", one.callID)
		case one.kind == kindCall:
			called[one.callID] = true
			r.calls = append(r.calls, one)
		case one.kind == kindOutput:
			r.Outputs[one.callID] = one.text
			if n == len(all)-1 || all[n+1].kind != kindOutput {
				r.Step++
			}
		}
		if one.ofModel() {
			step = append(step, one)
		}
		if len(step) > 0 && (n == len(all)-1 || !all[n+1].ofModel()) {
			s.compare(r, step)
			step = nil
		}
	}
	for id := range called {
		if !has(r.Outputs, id) {
			return refuse("input", "", "No tool output found for function call %s.", id)
		}
	}
	return nil
}

func has[V any](in map[string]V, key string) bool {
	_, there := in[key]
	return there
}

// compare notes a step that was not said as it comes back.
func (s *Server) compare(r *Request, step []said) {
	came := shape(r.API, step)
	if _, ok := s.steps.Load(came); !ok {
		s.journal.irregular("a step came back that was never said: " + came)
	}
}

var itemParameters = map[string]map[string]bool{
	kindMessage:   wordSet("type role content phase status"),
	kindCall:      wordSet("type call_id name arguments status"),
	kindOutput:    wordSet("type call_id output status"),
	kindReasoning: wordSet("type summary encrypted_content status content"),
}

// readResponses reads what a request of the Responses API brings back, and refuses what the API refuses.
func (s *Server) readResponses(r *Request, body object) *apiError {
	refusal := checkNames("", body, responsesParameters)
	if refusal == nil {
		refusal = r.readTools(body)
	}
	items, isList := r.Input.([]any)
	if refusal != nil || !isList {
		r.Text = inputText(r.Input)
		return refusal
	}
	if len(r.Tools) > 0 && !r.Store && !slices.Contains(r.Include, includeReasoning) && !slices.Contains(s.options.Refuses, "include") {
		s.journal.irregular("tools without include " + includeReasoning)
	}
	var all []said
	var words []any
	for n, item := range items {
		one, refusal := s.readItem(fmt.Sprintf("input[%d]", n), item)
		if refusal != nil {
			return refusal
		}
		all = append(all, one)
		if one == (said{}) {
			words = append(words, item)
		}
	}
	r.Text = inputText(words)
	return s.readSteps(r, all)
}

func (s *Server) readItem(place string, given any) (said, *apiError) {
	item, isObject := given.(object)
	kind := kindMessage
	if named := item["type"]; named != nil {
		kind, _ = named.(string)
	}
	known, ok := itemParameters[kind]
	if !isObject || !ok {
		return said{}, invalid(place)
	}
	if id := item["id"]; id != nil {
		message := fmt.Sprintf("Item with id '%v' not found. Items are not persisted when `store` is set to false.", id)
		return said{}, &apiError{http.StatusNotFound, message, invalidRequest, "input", "not_found"}
	}
	if refusal := checkNames(place+".", item, known); refusal != nil {
		return said{}, refusal
	}
	text := func(name string) string { value, _ := item[name].(string); return value }
	missing := func(names ...string) *apiError {
		for _, name := range names {
			if _, isText := item[name].(string); !isText {
				return refuse(place+"."+name, "missing_required_parameter", "Missing required parameter: '%s.%s'.", place, name)
			}
		}
		return nil
	}
	switch kind {
	case kindCall:
		return said{kind: kind, callID: text("call_id"), name: text("name"), text: text("arguments")}, missing("call_id", "name", "arguments")
	case kindOutput:
		return said{kind: kind, callID: text("call_id"), text: text("output")}, missing("call_id", "output")
	case kindReasoning:
		return said{kind: kind, sealed: text("encrypted_content")}, s.checkReasoning(place, item)
	}
	if item["role"] != "assistant" {
		return said{}, missing("role")
	}
	return said{kind: kind, text: inputText(item["content"]), phase: text("phase")}, nil
}

func (s *Server) checkReasoning(place string, item object) *apiError {
	if _, isList := item["summary"].([]any); !isList {
		return refuse(place+".summary", "missing_required_parameter", "Missing required parameter: '%s.summary'.", place)
	}
	if content, _ := item["encrypted_content"].(string); !s.sealed(content) {
		return refuse(place, "invalid_encrypted_content", "The encrypted content could not be verified.")
	}
	return nil
}

// readChat reads the messages of Chat Completions, and refuses what servers refuse.
func (s *Server) readChat(r *Request, body object) *apiError {
	refusal := checkNames("", body, chatParameters)
	if refusal == nil {
		refusal = r.readTools(body)
	}
	messages, _ := body["messages"].([]any)
	switch {
	case refusal != nil:
		return refusal
	case r.Model == "":
		return refuse("model", "", "you must provide a model parameter")
	case r.Metadata != nil && !r.Store:
		return refuse("metadata", "", "The 'metadata' parameter is only allowed when 'store' is enabled.")
	case body["stream_options"] != nil && !r.Stream:
		return refuse("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case len(messages) == 0:
		return invalid("messages")
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if limit, ok := body[name].(float64); ok {
			r.MaxOutputTokens = int(limit)
		}
	}
	var all []said
	var system, user []any
	waiting := map[string]bool{}
	for n, given := range messages {
		message, _ := given.(object)
		found, refusal := readMessage(fmt.Sprintf("messages[%d]", n), message, waiting)
		if refusal != nil {
			return refusal
		}
		all = append(all, found...)
		switch message["role"] {
		case "system", "developer":
			system = append(system, message)
		case "user":
			user = append(user, message)
		}
	}
	r.Instructions, r.Text = inputText(system), inputText(user)
	return s.readSteps(r, all)
}

// readMessage reads one message. Until all calls that wait have their outputs, only those may come.
func readMessage(place string, message object, waiting map[string]bool) ([]said, *apiError) {
	role, _ := message["role"].(string)
	id, _ := message["tool_call_id"].(string)
	_, isText := message["content"].(string)
	_, isList := message["content"].([]any)
	switch {
	case !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, role):
		return nil, invalid(place + ".role")
	case role == "tool" && !waiting[id]:
		return nil, refuse(place+".role", "",
			"Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
	case role != "tool" && len(waiting) > 0:
		return nil, refuse(place+".role", "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each "+
			"'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(slices.Sorted(maps.Keys(waiting)), ", "))
	case !isText && !isList && message["tool_calls"] == nil:
		return nil, invalid(place + ".content")
	case role == "tool":
		delete(waiting, id)
		return []said{{kind: kindOutput, callID: id, text: inputText(message["content"])}}, nil
	case role != "assistant":
		return []said{{}}, nil
	}
	found := []said{{kind: kindMessage, text: inputText(message["content"])}}
	calls, _ := message["tool_calls"].([]any)
	for _, given := range calls {
		call, _ := given.(object)
		function, _ := call["function"].(object)
		id, hasID := call["id"].(string)
		name, named := function["name"].(string)
		arguments, written := function["arguments"].(string)
		if call["type"] != "function" || !hasID || !named || !written {
			return nil, invalid(place + ".tool_calls")
		}
		waiting[id] = true
		found = append(found, said{kind: kindCall, callID: id, name: name, text: arguments})
	}
	return found, nil
}
