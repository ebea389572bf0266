package offline

import (
	"fmt"
	"strings"
)

var messageFields = map[string]check{
	"id":      isString,
	"type":    isOneOf("message"),
	"role":    isOneOf("user", "assistant", "system", "developer"),
	"content": isContent,
	"status":  isOneOf("in_progress", "completed", "incomplete"),
	"phase":   isString,
}

// isInput is a text or a list of messages with text.
func isInput(path string, value any) *apiError {
	if _, ok := value.(string); ok {
		return nil
	}
	items, ok := value.([]any)
	if !ok {
		return wrongType(path, "one of a string or array of input items", value)
	}
	if len(items) == 0 {
		return bad("empty_array", path, "Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", path)
	}
	for n, item := range items {
		if err := checkMessage(fmt.Sprintf("%s[%d]", path, n), item); err != nil {
			return err
		}
	}
	return nil
}

func checkMessage(path string, value any) *apiError {
	if err := isObject(messageFields)(path, value); err != nil {
		return err
	}
	message, _ := value.(map[string]any)
	role, _ := message["role"].(string)
	switch {
	case role == "":
		return missing(path + ".role")
	case message["content"] == nil:
		return missing(path + ".content")
	}
	parts, _ := message["content"].([]any)
	for n, part := range parts {
		if err := checkPart(fmt.Sprintf("%s.content[%d]", path, n), part, role); err != nil {
			return err
		}
	}
	return nil
}

// isContent is a text or a list of parts; the parts' own check needs the role.
func isContent(path string, value any) *apiError {
	switch content := value.(type) {
	case string:
		return nil
	case []any:
		if len(content) > 0 {
			return nil
		}
	}
	return wrongType(path, "one of a string or array of content parts", value)
}

var (
	userPart      = map[string]check{"type": isOneOf("input_text"), "text": isString, "prompt_cache_breakpoint": isObject(nil)}
	assistantPart = map[string]check{"type": isOneOf("output_text"), "text": isString, "annotations": isArray, "logprobs": isArray}
)

// checkPart refuses, among others, output_text from a user and input_text from the assistant.
func checkPart(path string, value any, role string) *apiError {
	fields := userPart
	if role == "assistant" {
		fields = assistantPart
	}
	if err := isObject(fields)(path, value); err != nil {
		return err
	}
	part, _ := value.(map[string]any)
	for _, name := range []string{"type", "text"} {
		if part[name] == nil {
			return missing(path + "." + name)
		}
	}
	return nil
}

// inputText returns the text of a checked input: one part unchanged, several joined by blank lines.
func inputText(input any) string {
	var parts []string
	switch value := input.(type) {
	case string:
		return value
	case []any:
		for _, item := range value {
			message, _ := item.(map[string]any)
			parts = append(parts, contentTexts(message["content"])...)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	for i := range parts {
		parts[i] = strings.Trim(parts[i], "\n")
	}
	return strings.Join(parts, "\n\n")
}

func contentTexts(content any) []string {
	if text, ok := content.(string); ok {
		return []string{text}
	}
	parts, _ := content.([]any)
	var texts []string
	for _, value := range parts {
		part, _ := value.(map[string]any)
		if text, ok := part["text"].(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}
