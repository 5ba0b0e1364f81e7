"""Shuffled conversations of several turns through a router; prints one JSON object with the usage of every turn.

    python conversations.py http://127.0.0.1:8800 --conversations 12 --turns 3 --seed 1

The order changes from turn to turn: in a fixed order, round robin would come back to the same worker by accident.
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
        raw = self.client.chat.completions.with_raw_response.create(
            model=MODEL, messages=self.messages, max_tokens=20, temperature=0, seed=self.number
        )
        reply = raw.parse()
        self.messages.append({"role": "assistant", "content": reply.choices[0].message.content})
        details = reply.usage.prompt_tokens_details
        return {
            "conversation": self.number,
            "turn": turn,
            "worker": raw.headers.get("x-warmpath-worker"),
            "prompt": reply.usage.prompt_tokens,
            "cached": (details.cached_tokens or 0) if details else 0,
            "seconds": round(time.monotonic() - began, 3),
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base")
    parser.add_argument("--conversations", type=int, default=12)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    client = openai.OpenAI(base_url=options.base.rstrip("/") + "/v1", api_key="unused", max_retries=0, timeout=180)
    conversations = [Conversation(n, client) for n in range(options.conversations)]
    order = random.Random(options.seed)
    said = []
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        for turn in range(options.turns):
            order.shuffle(conversations)
            said += pool.map(lambda c: c.say(turn), conversations)
    print(json.dumps({"seed": options.seed, "turns": said}))


if __name__ == "__main__":
    main()
