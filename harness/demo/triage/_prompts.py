"""What the steps say to the model. Each prompt has a name, so that a fork can replace it."""

from __future__ import annotations

import harness

CLASSIFY = harness.prompt(
    "classify",
    "Label each ticket of a plant device shop. List the order numbers and product names in it.",
)
CLASSIFY_EXAMPLES = (
    ("QB-3001 has been on its way for weeks and the box is torn.", "delivery", ("QB-3001",)),
    ("Why was I charged for Greenroom Plus? Stop it.", "billing", ("Greenroom Plus",)),
    ("My Dewbell from QB-3002 broke, please replace it.", "returns", ("QB-3002", "Dewbell")),
    ("The Fernlight stays dark when I switch it on.", "technical", ("Fernlight",)),
    ("The sign-in page does not know my address.", "account", ()),
    ("Is the Dewbell good for a cactus?", "product", ("Dewbell",)),
)

SEARCH = harness.prompt("search", "Search the help articles for what the customer wants. Use three to six key words.")

DRAFT = harness.prompt(
    "draft",
    """\
You answer tickets for Quillbrook Plantworks in two or three friendly sentences. Use only these facts:
{facts}
Customer {name}, orders: {orders}.""",
)

CRITIQUE = harness.prompt("critique", "Say in one short sentence what is wrong or missing in the reply to the ticket.")
CRITIQUE_EXAMPLES = (
    (
        "Ticket: When is my refund for QB-3002 due?\nFacts: The refund comes within 7 days.\n"
        "Reply: You get a refund in 3 weeks.",
        "It says 3 weeks, but the refund comes within 7 days.",
    ),
)

REVISE = harness.prompt(
    "revise",
    """\
You correct replies to customers. Use only these facts:
{facts}
Write two or three friendly sentences to the customer, nothing else.""",
)

VERIFY = harness.prompt("verify", "Does the reply say only what the facts say, and does it answer the ticket?")
VERIFY_EXAMPLES = (
    ("Facts: The refund comes within 7 days.\nTicket: When is my refund due?\nReply: In 3 weeks.", False),
    ("Facts: The refund comes within 7 days.\nTicket: When is my refund due?\nReply: Within 7 days.", True),
)
