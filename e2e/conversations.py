"""Shuffled conversations of several turns through a router; prints one JSON object with the usage of every turn.

    python conversations.py http://127.0.0.1:8800 --conversations 12 --turns 3 --seed 1

The order changes from turn to turn: in a fixed order, round robin would come back to the same worker by accident. First turns come
several at once, so that they spread; later ones singly, so that no worker is ever too busy for its hit to be worth waiting for. Every
other conversation is streamed.
"""

import argparse
import concurrent.futures
import json
import random
import time

import openai

MODEL = "smollm2"
SYSTEM = "You are the helpful assistant of a small library. Answer in one short sentence and stay friendly."
THINGS = ["a lighthouse", "a violin", "an old map", "a garden", "a kettle", "a bridge", "a comet", "a bakery",
          "a river", "a chess game", "a snowfall", "a harbour", "a windmill", "a desert", "a library", "a train"]
WHO = ["My aunt", "A neighbour", "The old teacher", "A sailor", "My brother", "The postman", "A painter", "Our doctor"]
DID = ["wrote about", "dreamed of", "once repaired", "never forgot", "carefully described", "told a story of", "drew a picture of"]
WHEN = ["in the spring", "after the long war", "on a rainy Sunday", "when the town was small", "before anyone had a telephone",
        "during the first winter", "in a letter to a friend"]
SENTENCES = 10  # of the first message: about 130 tokens, which cost a second or two wherever they are not cached
QUESTIONS = [
    "Please sum that up for a curious child, and say what {} has to do with it.",
    "That is nice. What would somebody who works with {} every day say about it to a friend?",
    "Thank you. Now give me a title for a short story in which {} and an old friend play the main parts.",
    "And how would that story about {} end, if the friend had to leave in the evening?",
]


class Conversation:
    def __init__(self, number, client):
        self.number, self.client = number, client
        self.thing = THINGS[number % len(THINGS)]
        self.messages = [{"role": "system", "content": SYSTEM}]
        chance = random.Random(number)
        self.story = " ".join(
            "%s %s %s %s." % (chance.choice(WHO), chance.choice(DID), chance.choice(THINGS), chance.choice(WHEN)) for _ in range(SENTENCES)
        )

    def say(self, turn):
        question = QUESTIONS[turn % len(QUESTIONS)].format(self.thing)
        self.messages.append({"role": "user", "content": question if turn else self.story + " " + question})
        began = time.monotonic()
        ask = self.streamed if self.number % 2 else self.whole
        text, usage = ask(model=MODEL, messages=self.messages, max_tokens=20, temperature=0, seed=self.number)
        self.messages.append({"role": "assistant", "content": text})
        return {
            "conversation": self.number,
            "turn": turn,
            "prompt": usage.prompt_tokens,
            "cached": usage.prompt_tokens_details.cached_tokens,
            "seconds": round(time.monotonic() - began, 3),
        }

    def whole(self, **request):
        reply = self.client.chat.completions.create(**request)
        return reply.choices[0].message.content, reply.usage

    def streamed(self, **request):
        text, usage = "", None
        for chunk in self.client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **request):
            usage = chunk.usage or usage
            text += "".join(c.delta.content or "" for c in chunk.choices)
        return text, usage


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base")
    parser.add_argument("--conversations", type=int, default=12)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=3, help="first turns that run together")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    client = openai.OpenAI(base_url=options.base.rstrip("/") + "/v1", api_key="unused", max_retries=0, timeout=180)
    conversations = [Conversation(n, client) for n in range(options.conversations)]
    order = random.Random(options.seed)
    said = []
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        order.shuffle(conversations)
        said += pool.map(lambda c: c.say(0), conversations)
    for turn in range(1, options.turns):
        order.shuffle(conversations)
        said += [c.say(turn) for c in conversations]
    print(json.dumps({"seed": options.seed, "turns": said}))


if __name__ == "__main__":
    main()
