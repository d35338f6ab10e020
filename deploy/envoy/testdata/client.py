"""What programs do with the official SDKs, one after the other: to load the SDKs takes seconds.

client.py URL reads a line "ACTION KEY NUMBER" for each and prints its result as a line of JSON.
"""
import concurrent.futures
import json
import sys
import time

import anthropic
import openai

url = sys.argv[1]
key, number = "", 0


def openai_client(**options):
    return openai.OpenAI(base_url=url + "/v1", api_key=key, **options)


def anthropic_client(**options):
    return anthropic.Anthropic(base_url=url, api_key=key, **options)


def chat(client, words, **options):
    return client.chat.completions.create(
        model="gpt-test", max_tokens=1000, messages=[{"role": "user", "content": words}], **options)


def message(client, words, **options):
    return client.messages.create(
        model="claude-test", max_tokens=1000, messages=[{"role": "user", "content": words}], **options)


def refused(error):
    return {
        "error": type(error).__name__, "status": error.status_code, "message": error.message,
        "body": error.body, "retry_after": error.response.headers.get("retry-after"),
    }


def openai_plain():
    answer = chat(openai_client(max_retries=0), "worth=321")
    return {"text": answer.choices[0].message.content, "tokens": answer.usage.total_tokens}


def openai_stream():
    text, tokens = "", None
    for part in chat(openai_client(max_retries=0), "worth=432", stream=True, stream_options={"include_usage": True}):
        text += "".join(choice.delta.content or "" for choice in part.choices)
        tokens = part.usage.total_tokens if part.usage else tokens
    return {"text": text, "tokens": tokens}


def openai_responses():
    answer = openai_client(max_retries=0).responses.create(model="gpt-test", input="worth=210", max_output_tokens=1000)
    return {"text": answer.output_text, "tokens": answer.usage.total_tokens}


def openai_abort():
    with chat(openai_client(max_retries=0), "worth=10 pause=2s", stream=True,
              stream_options={"include_usage": True}) as answer:
        next(iter(answer))
    return {"text": "left"}


def openai_silent():
    answer = chat(openai_client(max_retries=0), "silent")
    return {"text": answer.choices[0].message.content}


def openai_unasked():
    try:
        chat(openai_client(max_retries=0), "worth=10", stream=True)
    except openai.BadRequestError as error:
        return refused(error)


def openai_mini():
    """A request of the cheap model, which had some of its input in a cache."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100,
             "prompt_tokens_details": {"cached_tokens": 400}}
    answer = openai_client(max_retries=0).chat.completions.create(
        model="gpt-mini", max_tokens=1000, messages=[{"role": "user", "content": "usage=" + json.dumps(usage)}])
    return {"tokens": answer.usage.total_tokens}


def openai_refused():
    try:
        chat(openai_client(max_retries=0), "worth=21")
    except openai.APIStatusError as error:
        return refused(error)


def openai_failed():
    try:
        chat(openai_client(max_retries=0), "fail")
    except openai.InternalServerError as error:
        return {"error": type(error).__name__}


def anthropic_plain():
    answer = message(anthropic_client(max_retries=0), "worth=321")
    return {"text": answer.content[0].text, "tokens": answer.usage.input_tokens + answer.usage.output_tokens}


def anthropic_stream():
    text = ""
    with anthropic_client(max_retries=0).messages.stream(
            model="claude-test", max_tokens=1000, messages=[{"role": "user", "content": "worth=432"}]) as stream:
        for part in stream.text_stream:
            text += part
        usage = stream.get_final_message().usage
    return {"text": text, "tokens": usage.input_tokens + usage.output_tokens}


# Anthropic's input_tokens are those that no cache has to do with.
cached = {"input_tokens": 100, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 10, "output_tokens": 50}


def anthropic_cached():
    usage = message(anthropic_client(max_retries=0), "usage=" + json.dumps(cached)).usage
    return {"tokens": usage.input_tokens + usage.output_tokens}


def anthropic_cached_stream():
    with anthropic_client(max_retries=0).messages.stream(
            model="claude-test", max_tokens=1000,
            messages=[{"role": "user", "content": "usage=" + json.dumps(cached)}]) as stream:
        usage = stream.get_final_message().usage
    return {"tokens": usage.input_tokens + usage.output_tokens}


def openai_limited():
    """Uses the limit up, then asks once more without and once more with a retry."""
    return limited(openai_client, chat, openai.RateLimitError)


def anthropic_limited():
    return limited(anthropic_client, message, anthropic.RateLimitError)


def limited(client, ask, error):
    for _ in range(100):
        try:
            ask(client(max_retries=0), f"worth={number}")
        except error as e:
            result = refused(e)
            began = time.monotonic()
            ask(client(max_retries=3), "worth=1")
            return result | {"waited": time.monotonic() - began}
    return {"error": "never limited"}


def crowd():
    """So many clients at once, each with one request."""
    def one(n):
        ask, client = (chat, openai_client) if n % 2 else (message, anthropic_client)
        try:
            answer = ask(client(max_retries=0), f"worth={(n * 37) % 900 + 50}")
        except (openai.RateLimitError, anthropic.RateLimitError):
            return None
        usage = answer.usage
        return getattr(usage, "total_tokens", None) or usage.input_tokens + usage.output_tokens

    with concurrent.futures.ThreadPoolExecutor(number) as pool:
        used = list(pool.map(one, range(number)))
    return {"admitted": sum(n is not None for n in used), "tokens": sum(n or 0 for n in used)}


for line in sys.stdin:
    action, key, number = line.split()
    number = int(number)
    print(json.dumps(globals()[action]()), flush=True)
