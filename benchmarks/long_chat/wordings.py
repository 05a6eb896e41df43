"""What the facts of a long chat are about, and how people put them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILIES", "FIRST_NAMES", "LAST_NAMES", "MONTHS", "PET_NAMES", "Family"]


@dataclass(frozen=True, slots=True)
class Family:
    """Facts of one kind: wordings with a subject and a value, and ways to ask.

    Attributes:
        subjects: What the facts are about, each used once.
        values: What they say: the values themselves, or the name of a sort that `facts` makes up.
        wordings: How the user says it.
        replies: How the assistant says it.
        questions: How it is asked for.
        corrections: How it is taken back later; empty for kinds that are not corrected.
    """

    subjects: tuple[str, ...]
    values: str | tuple[str, ...]
    wordings: tuple[str, ...]
    replies: tuple[str, ...]
    questions: tuple[str, ...]
    corrections: tuple[str, ...] = ()


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


MONTHS = _listed(
    "January, February, March, April, May, June, July, August, September, October, November"
)

FAMILIES = {
    "code": Family(
        _listed("""garage door, bike shed, gym locker, alarm panel, wine cellar, letter box,
            office printer, guest wifi, holiday flat, tool chest, roof hatch, boat cabin,
            tea kitchen, community pool, archive, bicycle lock"""),
        "code",
        (
            "By the way, the code for the {subject} is {value} now.",
            "They changed the {subject} on us, you get in with {value} from today.",
            "Could you note {value}? That opens the {subject}.",
            "I finally found the slip of paper: {subject}, {value}.",
        ),
        ("I have set a new code for the {subject}: {value}.",),
        ("What do I type in at the {subject}?", "Which code was it for the {subject}?"),
        ("Forget the old code of the {subject}, since this morning it is {value}.",),
    ),
    "reference": Family(
        _listed("""ferry to Bergen, night train to Zagreb, rental van, hotel in Porto,
            opera tickets, insurance claim, parcel from Osaka, passport renewal, boiler warranty,
            ski course, language exam, broadband complaint, museum pass, flight to Tallinn"""),
        "reference",
        (
            "Got the confirmation for the {subject} at last, reference {value}.",
            "If anybody calls about the {subject}, they will want {value}.",
            "{value} is what they gave me for the {subject}.",
        ),
        (
            "The {subject} is booked, and the reference is {value}.",
            "Done. For the {subject} I received {value} as the confirmation.",
        ),
        (
            "I am on the phone about the {subject}, what is the reference?",
            "Under which number do they have the {subject}?",
        ),
    ),
    "person": Family(
        _listed("""dentist, landlord, piano teacher, tax adviser, plumber, physiotherapist,
            neighbour upstairs, vet, driving instructor, godmother, babysitter, boss, tailor,
            choir leader, allotment neighbour, hairdresser, eldest cousin, first landlady,
            marriage registrar, swimming coach"""),
        "person",
        (
            "My {subject} is called {value}, in case I mention the name.",
            "{value}, who is my {subject}, was in an odd mood today.",
            "I ran into my {subject} at the tram stop; you know, {value}.",
            "Before I forget it again: the name of my {subject} is {value}.",
        ),
        ("I have added {value} to your contacts as your {subject}.",),
        ("Who is my {subject}?", "What was the name of my {subject} again?"),
        ("I mixed that up the other day, my {subject} is really {value}.",),
    ),
    "pet": Family(
        _listed("""tortoise, ginger cat, budgie, sheepdog, rabbit, hamster, goldfish, pony,
            hedgehog in the garden, parrot, ferret, axolotl"""),
        "pet",
        (
            "The kids want to call the {subject} {value}, and I gave in.",
            "{value} is what we named the {subject} in the end.",
            "Our {subject}, {value}, has been eating the curtains.",
        ),
        ("What a lovely name for a {subject}: {value}.",),
        ("How did we name the {subject}?", "What is our {subject} called?"),
    ),
    "date": Family(
        _listed("""piano recital, chimney inspection, christening, thesis defence, garden party,
            eye test, house warming, choir concert, car inspection, retirement party, marathon,
            parents' evening, book launch, wisdom tooth operation, moving day, school play,
            silver wedding, blood donation"""),
        "date",
        (
            "They fixed the {subject} for {value}.",
            "Please keep {value} free, that is when the {subject} takes place.",
            "The {subject} is on {value} and I have nothing to wear.",
            "So {value} it is for the {subject}, whether I like it or not.",
        ),
        ("I have put the {subject} into your calendar for {value}.",),
        ("When is the {subject}?", "On what day do we have the {subject}?"),
        (
            "The {subject} was moved, it will be on {value} instead.",
            "Correction about the {subject}: not the day I told you but {value}.",
        ),
    ),
    "amount": Family(
        _listed("""curtain rail, oak shelf, aquarium, greenhouse, kitchen worktop, attic ladder,
            garden hose, picture frame, sofa, dining table, wardrobe, hammock"""),
        "length",
        (
            "I measured the {subject} twice, it is {value} long.",
            "{value}, that is how long the {subject} has to be.",
            "The carpenter says {value} for the {subject} and not a bit more.",
        ),
        ("For the {subject} I would order {value}.",),
        ("How long is the {subject} supposed to be?", "What did we measure for the {subject}?"),
        ("I measured the {subject} again and it is {value}, sorry.",),
    ),
    "price": Family(
        _listed("""roof repair, espresso machine, second-hand cello, fence, new windscreen,
            language course, heat pump, orthodontist, catering, tree surgeon, kayak, daycare,
            solar panels, band"""),
        "price",
        (
            "The quote for the {subject} came in at {value}.",
            "They want {value} for the {subject}, can you believe it?",
            "I agreed to pay {value} for the {subject}.",
        ),
        ("I found an offer for the {subject} at {value}.",),
        ("What does the {subject} cost us?", "How much was the offer for the {subject}?"),
    ),
    "place": Family(
        _listed("""spare key, birth certificates, fondue set, sewing kit, sleeping bags, fuse box,
            Christmas lights, blue suitcase, chess clock, camping stove, vaccination cards,
            old love letters, water shut-off, tennis rackets"""),
        _listed("""under the flowerpot with the crack, behind the boiler, in the piano stool,
            on top of the fridge, inside the grandfather clock, under the third stair,
            in the drawer with the candles, behind the encyclopaedia, in the wicker basket,
            beneath the sink, in the biscuit tin, above the cellar door, in the doll's house,
            between the winter coats"""),
        (
            "I put the {subject} {value}, so that nobody looks there.",
            "If you ever have to tell somebody: {subject}, {value}.",
            "We keep the {subject} {value} these days.",
        ),
        ("Noted, the {subject} can be found {value}.",),
        ("Where did I put the {subject}?", "Where do we keep the {subject}?"),
        ("We tidied up, and now you find the {subject} {value}.",),
    ),
    "preference": Family(
        _listed("""pizza topping, herbal tea, board game, sort of apple, card game, soup, cheese,
            ice cream flavour, sandwich filling, breakfast, kind of pasta, salad dressing,
            cocktail, birthday cake, colour for walls, flower"""),
        _listed("""pickled walnuts, verbena, backgammon, russet, canasta, sorrel broth,
            smoked ricotta, liquorice, egg and cress, kedgeree, orecchiette, tahini and lemon,
            a negroni, poppy seed, pale ochre, peonies"""),
        (
            "If it comes to a {subject}, nothing beats {value}.",
            "You should know that my favourite {subject} is {value}.",
            "When somebody asks me for a {subject} I always say {value}.",
        ),
        ("I will remember that your {subject} of choice is {value}.",),
        ("What is my favourite {subject}?", "Which {subject} do I like best?"),
        ("My taste has changed, the {subject} I like best is now {value}.",),
    ),
    "aversion": Family(
        _listed("""Sunday visits, long flights, open-plan offices, camping, team buildings,
            phone calls before noon, crowded beaches, surprise parties"""),
        _listed("""the smell of lilies, stale pretzels, whistling colleagues, damp socks,
            trust falls, the ringtone with the marimba, sand in the sandwiches,
            people behind the sofa"""),
        (
            "What I hate most about {subject} is {value}.",
            "{subject} would be bearable without {value}.",
        ),
        ("So with {subject} it is {value} that bothers you.",),
        ("What do I dislike about {subject}?", "Why can't I stand {subject}?"),
    ),
    "reminder": Family(
        _listed("""we drive to the lake, the surveyor comes, school starts, I see the notary,
            the in-laws arrive, we fly to Malta, I hand in the thesis, the movers come,
            I go to the cardiologist, the freezer is delivered"""),
        _listed("""water the bonsai, photocopy the deeds, sew in the name tags,
            find the marriage lines, hide the accordion, renew the cat's microchip,
            have the bibliography proofread, empty the aquarium, fast for a night,
            measure the pantry"""),
        (
            "Remind me to {value} before {subject}.",
            "I must not forget to {value} before {subject}.",
            "Before {subject} I still have to {value}.",
        ),
        ("I will remind you to {value} before {subject}.",),
        ("What was I going to do before {subject}?", "What is left to do before {subject}?"),
    ),
    "allergy": Family(
        _listed("""Aunt Odile, my nephew, the new flatmate, our guest from Lyon, the neighbour's
            boy, my choir friend, the exchange student, my late uncle's widow"""),
        _listed("""hazelnuts, penicillin, latex gloves, celeriac, wasp stings, lupin flour,
            birch pollen, shellfish"""),
        (
            "Careful when we cook: {subject} is allergic to {value}.",
            "{subject} ended up in hospital once because of {value}.",
        ),
        ("For the menu: {subject} cannot have {value}.",),
        ("What must we keep away from {subject}?", "What is {subject} allergic to?"),
    ),
    "job": Family(
        _listed("""my sister, Rupert, the man next door, my old schoolfriend, the twins' father,
            Marguerite, my bridge partner, the woman from the ferry, my landlord's son, Ottilie"""),
        _listed("""glass blower, bee inspector, crossword setter, bridge engineer, violin maker,
            lighthouse keeper, court stenographer, truffle farmer, wig maker, cartographer"""),
        (
            "Did I tell you that {subject} works as a {value}?",
            "{subject} has become a {value}, of all things.",
            "It turns out {subject} earns a living as a {value}.",
        ),
        ("A {value}! {subject} must have stories to tell.",),
        ("What does {subject} do for a living?", "What is the job of {subject}?"),
        ("I was wrong, {subject} is a {value}.",),
    ),
    "phone": Family(
        _listed("""taxi firm, emergency glazier, pharmacy on the square, school office,
            chimney sweep, harbour master, pizza place, night nurse, ticket hotline, locksmith,
            car club"""),
        "phone",
        (
            "You reach the {subject} on {value}.",
            "The {subject} gave me a direct number, {value}.",
            "Write this down, please: {value}, that is the {subject}.",
        ),
        ("The number of the {subject} is {value}.",),
        ("How do I reach the {subject}?", "What is the phone number of the {subject}?"),
    ),
    "size": Family(
        _listed("""ski boots, wedding ring, riding hat, work gloves, dress shirt, rain boots,
            wetsuit, bicycle frame"""),
        "size",
        (
            "For the {subject} I need size {value}.",
            "I take {value} in {subject}, they run small.",
            "The fitting says {value} for the {subject}.",
        ),
        ("I ordered the {subject} in size {value}.",),
        ("What size are my {subject}?", "Which size do I take for the {subject}?"),
        ("I tried the {subject} on, {value} fits better.",),
    ),
    "birthday": Family(
        _listed("""Grandpa Anselm, little Ida, my mother-in-law, Benedikt, the twins, Aunt Rosamund,
            Philippa, our postman, my godson Jasper, old Mrs Tilney"""),
        "date",
        (
            "{subject} has a birthday on {value}.",
            "The birthday of {subject}, {value}, always slips my mind.",
            "{value} is when we celebrate {subject} every year.",
        ),
        ("I saved {value} as the birthday of {subject}.",),
        ("When is the birthday of {subject}?", "On which day do we celebrate {subject}?"),
    ),
}
FIRST_NAMES = _listed(
    """Tobias, Henrike, Casimir, Ludmila, Fergus, Annelie, Matthis, Oriana, Percival, Solveig,
    Thaddeus, Viveka, Wendelin, Xenia, Yorick, Zelda, Barnaby, Clementine, Dorian, Evangeline,
    Florian, Gwendolyn, Horatio, Isolde"""
)
LAST_NAMES = _listed(
    """Renn, Halloran, Quistgaard, Abernathy, Bellweather, Czerny, Dunwoody, Eisenreich, Fothergill,
    Grindelwaldt, Hasselhorn, Ivarsson, Jellicoe, Kirschbaum, Lindqvist, Mapplebeck, Nightingale,
    Oberholzer, Pennyfeather, Quackenbush, Ravensburg, Silberstein, Thistlewood, Underhill"""
)
PET_NAMES = _listed(
    """Bismarck, Pumpernickel, Zorro, Tinkerbell, Moriarty, Waffle, Cleopatra, Biscotti, Rasputin,
    Marzipan, Figaro, Truffles"""
)
