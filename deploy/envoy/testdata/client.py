"""What programs do with the official SDKs. To load these takes seconds, so one process does it for all tests.

client.py PORT answers GET /ACTION?url=URL&key=KEY&number=NUMBER with the result as JSON.
"""
import concurrent.futures
import http.server
import json
import sys
import time
import urllib.parse

import anthropic
import openai

# Anthropic's input_tokens are those that no cache has to do with.
cached = {"input_tokens": 100, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 10, "output_tokens": 50}


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


class Program:
    def __init__(self, url="", key="", number="0"):
        self.url, self.key, self.number = url, key, int(number)

    def ready(self):
        return {}

    def openai_client(self, max_retries=0):
        return openai.OpenAI(base_url=self.url + "/v1", api_key=self.key, max_retries=max_retries)

    def anthropic_client(self, max_retries=0):
        return anthropic.Anthropic(base_url=self.url, api_key=self.key, max_retries=max_retries)

    def openai_plain(self):
        answer = chat(self.openai_client(), "worth=321")
        return {"text": answer.choices[0].message.content, "tokens": answer.usage.total_tokens}

    def openai_stream(self):
        text, tokens = "", None
        for part in chat(self.openai_client(), "worth=432", stream=True, stream_options={"include_usage": True}):
            text += "".join(choice.delta.content or "" for choice in part.choices)
            tokens = part.usage.total_tokens if part.usage else tokens
        return {"text": text, "tokens": tokens}

    def openai_responses(self):
        answer = self.openai_client().responses.create(model="gpt-test", input="worth=210", max_output_tokens=1000)
        return {"text": answer.output_text, "tokens": answer.usage.total_tokens}

    def openai_abort(self):
        with chat(self.openai_client(), "worth=10 pause=2s", stream=True,
                  stream_options={"include_usage": True}) as answer:
            next(iter(answer))
        return {"text": "left"}

    def openai_silent(self):
        answer = chat(self.openai_client(), "silent")
        return {"text": answer.choices[0].message.content}

    def openai_unasked(self):
        try:
            chat(self.openai_client(), "worth=10", stream=True)
        except openai.BadRequestError as error:
            return refused(error)

    def openai_mini(self):
        """A request of the cheap model, which had some of its input in a cache."""
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100,
                 "prompt_tokens_details": {"cached_tokens": 400}}
        answer = self.openai_client().chat.completions.create(
            model="gpt-mini", max_tokens=1000, messages=[{"role": "user", "content": "usage=" + json.dumps(usage)}])
        return {"tokens": answer.usage.total_tokens}

    def openai_refused(self):
        try:
            chat(self.openai_client(), "worth=21")
        except openai.APIStatusError as error:
            return refused(error)

    def openai_failed(self):
        try:
            chat(self.openai_client(), "fail")
        except openai.InternalServerError as error:
            return {"error": type(error).__name__}

    def anthropic_plain(self):
        answer = message(self.anthropic_client(), "worth=321")
        return {"text": answer.content[0].text, "tokens": answer.usage.input_tokens + answer.usage.output_tokens}

    def anthropic_stream(self):
        text = ""
        with self.anthropic_client().messages.stream(
                model="claude-test", max_tokens=1000, messages=[{"role": "user", "content": "worth=432"}]) as stream:
            for part in stream.text_stream:
                text += part
            usage = stream.get_final_message().usage
        return {"text": text, "tokens": usage.input_tokens + usage.output_tokens}

    def anthropic_cached(self):
        usage = message(self.anthropic_client(), "usage=" + json.dumps(cached)).usage
        return {"tokens": usage.input_tokens + usage.output_tokens}

    def anthropic_cached_stream(self):
        with self.anthropic_client().messages.stream(
                model="claude-test", max_tokens=1000,
                messages=[{"role": "user", "content": "usage=" + json.dumps(cached)}]) as stream:
            usage = stream.get_final_message().usage
        return {"tokens": usage.input_tokens + usage.output_tokens}

    def openai_limited(self):
        """Uses the limit up, then asks once more without and once more with a retry."""
        return self.limited(self.openai_client, chat, openai.RateLimitError)

    def anthropic_limited(self):
        return self.limited(self.anthropic_client, message, anthropic.RateLimitError)

    def limited(self, client, ask, error):
        for _ in range(100):
            try:
                ask(client(), f"worth={self.number}")
            except error as e:
                result = refused(e)
                began = time.monotonic()
                ask(client(max_retries=3), "worth=1")
                return result | {"waited": time.monotonic() - began}
        return {"error": "never limited"}

    def crowd(self):
        """So many clients at once, each with one request."""
        def one(n):
            ask, client = (chat, self.openai_client) if n % 2 else (message, self.anthropic_client)
            try:
                answer = ask(client(), f"worth={(n * 37) % 900 + 50}")
            except (openai.RateLimitError, anthropic.RateLimitError):
                return None
            usage = answer.usage
            return getattr(usage, "total_tokens", None) or usage.input_tokens + usage.output_tokens

        with concurrent.futures.ThreadPoolExecutor(self.number) as pool:
            used = list(pool.map(one, range(self.number)))
        return {"admitted": sum(n is not None for n in used), "tokens": sum(n or 0 for n in used)}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = urllib.parse.urlsplit(self.path)
        program = Program(**dict(urllib.parse.parse_qsl(asked.query)))
        result = json.dumps(getattr(program, asked.path[1:])())
        self.send_response(200)
        self.end_headers()
        self.wfile.write(result.encode())


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
