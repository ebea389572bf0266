package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/swaggest/jsonschema-go"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/transfer"
	"github.com/arcoscribe/throughline/streaming"
)

// named are the schemas whose name is not their type's own; the descriptions are of those types that have none.
var named = map[reflect.Type]struct{ name, description string }{
	reflect.TypeFor[uuid.UUID]():                {"UUID", ""},
	reflect.TypeFor[errorBody]():                {"Error", ""},
	reflect.TypeFor[api.NewChat]():              {"NewChatRequest", ""},
	reflect.TypeFor[api.ChatChange]():           {"ChangeChatRequest", ""},
	reflect.TypeFor[api.MessageChange]():        {"ChangeMessageRequest", ""},
	reflect.TypeFor[api.NewMessages]():          {"StoreMessagesRequest", ""},
	reflect.TypeFor[api.Selection]():            {"SelectVersionRequest", ""},
	reflect.TypeFor[api.Versions]():             {"MessageVersions", ""},
	reflect.TypeFor[api.Selected]():             {"SelectedVersion", ""},
	reflect.TypeFor[callRequest]():              {"AnswerCallRequest", ""},
	reflect.TypeFor[callClaim]():                {"ClaimedCall", ""},
	reflect.TypeFor[memory.Part]():              {"MessagePart", ""},
	reflect.TypeFor[api.FileRef]():              {"MessageFile", ""},
	reflect.TypeFor[memory.File]():              {"NewFile", ""},
	reflect.TypeFor[api.Cleared]():              {"ClearResult", ""},
	reflect.TypeFor[api.PruneQuery]():           {"PruneRequest", ""},
	reflect.TypeFor[api.Pruned]():               {"PruneResult", ""},
	reflect.TypeFor[api.Memory]():               {"LongTermMemory", ""},
	reflect.TypeFor[api.NewMemory]():            {"NewMemoryRequest", ""},
	reflect.TypeFor[api.MemoryChange]():         {"ChangeMemoryRequest", ""},
	reflect.TypeFor[api.MemorySettingsChange](): {"ChangeMemorySettingsRequest", ""},
	reflect.TypeFor[api.ForgetRequest]():        {"ForgetRequest", ""},
	reflect.TypeFor[api.OneTopic]():             {"TopicDetail", ""},
	reflect.TypeFor[api.TopicChange]():          {"ChangeTopicRequest", ""},
	reflect.TypeFor[api.TopicMerge]():           {"MergeTopicRequest", ""},
	reflect.TypeFor[api.Feedback]():             {"FeedbackRequest", ""},
	reflect.TypeFor[api.Question]():             {"StandaloneRequest", ""},
	reflect.TypeFor[api.Stats](): {"Stats", "What a user's chats amount to. " +
		"Turns, messages, tokens and bytes are of everything that is stored, expired chats as well."},
	reflect.TypeFor[api.Standalone]():      {"StandaloneQuestion", ""},
	reflect.TypeFor[transfer.Result]():     {"ImportResult", ""},
	reflect.TypeFor[transfer.Progress]():   {"ImportProgress", ""},
	reflect.TypeFor[streaming.Started]():   {"MessageStarted", "First event of every stream."},
	reflect.TypeFor[streaming.Delta]():     {"ContentDelta", "The next piece of the reply."},
	reflect.TypeFor[streaming.PartAdded](): {"PartAdded", "The next of a reply's parts, whole."},
	reflect.TypeFor[streaming.Awaiting]():  {"MessageAwaiting", "Last event of a stream whose reply waits: it goes on once its open calls are answered."},
	reflect.TypeFor[streaming.OpenCall]():  {"OpenCall", "A call of a tool that waits for its answer."},
	reflect.TypeFor[streaming.Completed](): {"Completion", "Terminal event: the reply is whole and stored."},
	reflect.TypeFor[streaming.Failed]():    {"MessageFailed", "Terminal event: the reply broke off. What was said until then is stored."},
	reflect.TypeFor[streaming.Cancelled](): {"MessageCancelled", "Terminal event: somebody stopped the reply. What was said until then is stored."},
	reflect.TypeFor[chat.Whole]():          {"WholeReply", "The reply as one object: what completion says, and the text."},
	reflect.TypeFor[chat.Stopped]():        {"CancelResult", ""},
	reflect.TypeFor[chat.PromptPreview]():  {"Memory", "What the next prompt of a chat would hold of it."},
	reflect.TypeFor[chat.Context]():        {"MemoryContext", "The chat in short."},
	reflect.TypeFor[chat.Window]():         {"MemoryBudget", "How the model's context window is divided, in tokens."},
	reflect.TypeFor[prompt.Receipt]():      {"MemoryReceipt", "What the reply remembered."},
	reflect.TypeFor[prompt.Section]():      {"MemorySection", "A part of the prompt, with its heading."},
	reflect.TypeFor[prompt.Account]():      {"SectionAccount", "What a section of the prompt takes and stands for."},
	reflect.TypeFor[graph.Answer]():        {"Graph", ""},
	reflect.TypeFor[graph.Node]():          {"GraphEntity", "Something that memories mention."},
	reflect.TypeFor[graph.Edge]():          {"GraphRelationship", "What memories say of two entities."},
}

// schemaName is the name of a type's schema: its own, with a capital letter, unless it is among named.
func schemaName(of reflect.Type) string {
	return cmp.Or(named[of].name, strings.ToUpper(of.Name()[:1])+of.Name()[1:])
}

// corrections are members of properties' schemas that no tag can give: lists that are known only here, and
// differences between two schemas that share a field. nil removes a member.
var corrections = map[string]object{
	"Message.parts":          {"items": schemaRef("MessagePart")},
	"Memory.strategy":        {"enum": api.Strategies, "type": nil},
	"MemoryReceipt.strategy": {"enum": api.Strategies, "type": nil},
	"MemorySection.name": {
		"enum": []string{"brief", "kept", "recent", "files", "memories", "topic", "recall"}, "type": nil,
		"description": "Which part it is.",
	},
	"SectionAccount.failure":    {"description": "Why a section that had to be retrieved is missing: late or failed."},
	"PartAdded.part":            {"$ref": schemaPrefix + "MessagePart", "anyOf": nil},
	"MessageAwaiting.open":      {"type": "array"},
	"Completion.content_length": {"description": "Characters (Unicode code points) of the whole reply."},
	"Completion.memory":         {"anyOf": []object{schemaRef("MemoryReceipt"), {"type": "null"}}},
	"WholeReply.memory":         {"anyOf": []object{schemaRef("MemoryReceipt"), {"type": "null"}}},
	"WholeReply.finish_reason": {
		"enum":        []string{"stop", "length", "content_filter", "tool_calls", "cancelled"},
		"description": "Why the model stopped; cancelled when somebody stopped it, tool_calls where the reply waits for answers to calls.",
	},
	"MessageFailed.code": {"enum": slices.Sorted(maps.Keys(statuses))},
	"Error.code":         {"enum": slices.Sorted(maps.Keys(statuses))},
}

// schemas are all component schemas: of the types of routes, of named, and the ones without a type.
var schemas = sync.OnceValue(func() object {
	all := maps.Clone(fixedParts()["components"].(object)["schemas"].(object))
	collect := func(context *jsonschema.ReflectContext) {
		jsonschema.RootRef(context)
		context.CollectDefinitions = func(name string, schema jsonschema.Schema) { all[name] = plain(schema) }
	}
	for of := range named {
		reflectSchema(of, collect)
	}
	for _, r := range routes() {
		if r.out != nil {
			reflectSchema(r.out, collect)
		}
	}
	for _, r := range routes() {
		if r.body() != nil {
			reflectSchema(r.body(), collect, jsonschema.InterceptSchema(refuseUnknown))
		}
	}
	for of, schema := range named {
		if schema.description != "" {
			all[schemaName(of)].(object)["description"] = schema.description
		}
	}
	for name, correction := range corrections {
		schema, name, _ := strings.Cut(name, ".")
		property := all[schema].(object)["properties"].(object)[name].(object)
		maps.Copy(property, correction)
		maps.DeleteFunc(property, func(_ string, member any) bool { return member == nil })
	}
	return all
})

// reflectSchema makes the schema of a struct type from its tags.
func reflectSchema(of reflect.Type, options ...func(*jsonschema.ReflectContext)) object {
	reflector := jsonschema.Reflector{}
	reflector.AddTypeMapping(api.Field[string]{}, "")
	reflector.AddTypeMapping(api.Field[int]{}, 0)
	reflector.AddTypeMapping(api.Field[float64]{}, 0.0)
	reflector.AddTypeMapping(api.Field[[]string]{}, []string{})
	reflector.AddTypeMapping(api.Field[map[string]any]{}, map[string]any{})
	reflector.AddTypeMapping(api.Field[json.RawMessage]{}, json.RawMessage{})
	schema, err := reflector.Reflect(reflect.New(of).Elem().Interface(), append(options,
		func(context *jsonschema.ReflectContext) { context.EnvelopNullability = true },
		jsonschema.DefinitionsPrefix(schemaPrefix),
		jsonschema.InterceptDefName(func(t reflect.Type, _ string) string { return schemaName(t) }),
		jsonschema.InterceptSchema(uuidSchema),
		jsonschema.InterceptProp(readOwnTags),
	)...)
	if err != nil {
		panic(fmt.Sprintf("httpapi: no schema of %v: %v", of, err))
	}
	return plain(schema)
}

// refuseUnknown notes that requests refuse unknown fields.
func refuseUnknown(params jsonschema.InterceptSchemaParams) (stop bool, err error) {
	if params.Processed && params.Value.Kind() == reflect.Struct && params.Schema.HasType(jsonschema.Object) {
		no := false
		params.Schema.AdditionalProperties = &jsonschema.SchemaOrBool{TypeBoolean: &no}
	}
	return false, nil
}

// uuidSchema is the same for uuid.UUID and a pointer to it, which would otherwise make the shared schema nullable.
func uuidSchema(params jsonschema.InterceptSchemaParams) (stop bool, err error) {
	of := params.Value.Type()
	if of != reflect.TypeFor[uuid.UUID]() && of != reflect.TypeFor[*uuid.UUID]() {
		return false, nil
	}
	params.Schema.WithType(jsonschema.String.Type())
	params.Schema.WithFormat("uuid")
	return true, nil
}

// readOwnTags follows the rules for tags that the library does not have: a field without omitempty or omitzero is
// always there, null is among the words of a nullable enum, doc names a description of descriptions.txt, and type stands for the
// types of a json.RawMessage.
func readOwnTags(params jsonschema.InterceptPropParams) error {
	if !params.Processed {
		return nil
	}
	tag := params.Field.Tag.Get("json")
	if tag != "" && !strings.Contains(tag, ",omit") && !slices.Contains(params.ParentSchema.Required, params.Name) {
		params.ParentSchema.Required = append(params.ParentSchema.Required, params.Name)
	}
	if len(params.PropertySchema.Enum) > 0 && params.PropertySchema.HasType(jsonschema.Null) {
		params.PropertySchema.Enum = append(params.PropertySchema.Enum, nil)
	}
	if len(params.PropertySchema.AnyOf) > 0 {
		params.PropertySchema.Type = nil // a reference or null; the library keeps the type of the referenced schema
	}
	if key := params.Field.Tag.Get("doc"); key != "" {
		text, ok := fieldDocs()[key]
		if !ok {
			return fmt.Errorf("descriptions.txt has no %s", key)
		}
		params.PropertySchema.WithDescription(text)
	}
	if types := params.Field.Tag.Get("type"); types != "" {
		params.PropertySchema.Type = nil
		for name := range strings.SplitSeq(types, ",") {
			params.PropertySchema.AddType(jsonschema.SimpleType(name))
		}
	}
	return nil
}

// plain converts a schema to an object, to which words can be added that the library does not have.
func plain(schema jsonschema.Schema) object {
	encoded, err := json.Marshal(schema)
	var decoded object
	if err == nil {
		err = json.Unmarshal(encoded, &decoded)
	}
	if err != nil {
		panic(fmt.Sprintf("httpapi: schema cannot be encoded: %v", err))
	}
	return decoded
}
