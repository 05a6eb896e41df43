"""Facts of six kinds, each with a question that shares no word of weight with what was said.

A line has what the fact is about, as it is said, and how somebody asks for it who has forgotten the
words. Where the fact says something of its own (a promise, a preference), it stands between.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SAYINGS", "Sayings"]


@dataclass(frozen=True, slots=True)
class Sayings:
    """Facts of one kind.

    Attributes:
        wordings: How the user says it.
        replies: How the assistant says it.
        plain: How it is asked for with the words it was said in.
        lines: Of each fact its subject, its value (empty: one is made up) and the question.
    """

    wordings: tuple[str, ...]
    replies: tuple[str, ...]
    plain: str
    lines: tuple[tuple[str, str, str], ...]


def _pairs(text: str) -> tuple[tuple[str, str, str], ...]:
    rows = [[part.strip() for part in line.split("|")] for line in text.strip().splitlines()]
    return tuple((subject, "", question) for subject, question in rows)


def _triples(text: str) -> tuple[tuple[str, str, str], ...]:
    rows = [[part.strip() for part in line.split("|")] for line in text.strip().splitlines()]
    return tuple((subject, value, question) for subject, value, question in rows)


SAYINGS = {
    "price": Sayings(
        (
            "The quote for the {subject} came in at {value}.",
            "They want {value} for the {subject}.",
            "I agreed to {value} for the {subject}.",
        ),
        ("I found an offer for the {subject} at {value}.",),
        "How much do I have to pay for the {subject}?",
        _pairs("""
            roof repair | How much money do we need to fix the top of the house?
            espresso machine | What would the coffee maker set us back?
            second-hand cello | How expensive is the used string instrument?
            garden fence | What do we have to pay for the barrier around the lawn?
            new windscreen | What will replacing the car's front glass cost?
            heat pump | How much is the new system that keeps our radiators warm?
            orthodontist | What do the kid's braces cost us?
            wedding catering | How much do the cooks charge for the marriage feast?
            tree surgeon | What is the bill for cutting down the old oak?
            kayak | How much would a paddle boat cost?
            solar panels | What are we paying for the photovoltaic modules?
            jazz band | How much money do the musicians expect?
            piano tuner | What does it cost to get the grand back in pitch?
            moving van | How much is renting the truck for our stuff?
            leather sofa | What was the sum for the couch?
            electric bike | How expensive is the pedelec?
            bathroom tiles | What do we spend on ceramics for the washroom?
            puppy | How much does the breeder charge for the little dog?
            wine tasting | What does sampling the vintages cost per head?
            driving lessons | How expensive is it to learn to steer a car?
            wood stove | What is the sum for the fireplace?
            dishwasher | How much for the appliance that cleans plates?
            hearing aid | What does grandpa's ear device cost?
            sailing course | How much is it to be taught yachting?
            stained-glass window | What would the coloured pane cost?
            gravel driveway | How much to put stones on the road to the garage?
            antique clock | What does the old timepiece cost?
            photographer | How much does the person taking our pictures charge?
            attic insulation | What do we pay to keep warmth from leaving under the roof?
            tractor | What is the farm vehicle worth to them?
            sewing machine | How much would the thing for stitching dresses be?
            beehives | How expensive are homes for the honey makers?
            climbing shoes | What must I pay for footwear for bouldering?
            telescope | How much money is it to look at the stars?
            drone | What is the price of the flying camera?
            language app | How much is the subscription for learning Italian?
            wisdom teeth | How expensive is the operation on my molars?
            pottery kiln | What does the oven for clay cost?
            greenhouse | How much to get the glass hut for tomatoes?
            carpet cleaning | What is the charge for shampooing the rugs?
        """),
    ),
    "code": Sayings(
        (
            "By the way, the code for the {subject} is {value} now.",
            "You get into the {subject} with {value} from today.",
            "Could you note {value}? That is for the {subject}.",
        ),
        ("I have set a new code for the {subject}: {value}.",),
        "What was it I have to enter at the {subject}?",
        _pairs("""
            bike shed | Which digits open the hut for our two-wheelers?
            gym locker | What combination is on my cupboard at the fitness studio?
            alarm panel | How do I silence the burglar siren?
            wine cellar | How do I unlock the vault with the bottles?
            letter box | What opens the thing where the post arrives?
            guest wifi | What password do visitors need for the internet?
            boat cabin | What do I type to enter the yacht's saloon?
            garage door | How can I make the gate for the car go up?
            office printer | What PIN does the copier at work want?
            holiday flat | Which number lets us into the vacation apartment?
            roof hatch | How do I get out on top of the building?
            community pool | What must I key in to go swimming with the neighbours?
            cloakroom | Which number did I choose where the coats hang?
            safe deposit | What is the secret for our valuables at the bank?
            allotment gate | How do I enter the vegetable plots?
            school portal | What is the login for the pupils' website?
            car radio | What do I press so the stereo in the vehicle plays again?
            staff canteen | How do employees get to lunch?
            laundry room | How do I get to the washing machines?
            storage unit | Which digits open the warehouse box with grandma's furniture?
            chapel vestry | How does one get to where the priest changes?
            tablet | How do I unlock the iPad?
            parcel station | What picks up my package at the machine?
            ski hut | How do we open the cabin on the slopes?
            server rack | What unlocks the computers in the basement?
            toolbox | How do I reach the hammers and pliers?
            medicine cabinet | How do I open where the pills are?
            music studio | How do we get in for band practice?
            stable | Which number opens the horses' house?
            observatory | How do I get into the dome with the telescope?
            archive | How do I reach the old files?
            night entrance | How can I come in after dark?
            freight lift | What do I push for the goods elevator?
            barrier at work | How do I raise the bar to the company's parking?
            baby monitor | How do I connect to the infant's camera?
            smart meter | What does the electricity counter want to be told?
            conference bridge | What do I dial to join the meeting by phone?
            museum depot | How do I enter where the paintings are stored?
            campsite shower | How do I get hot water among the tents?
            rooftop terrace | What lets us sit outside above the city?
        """),
    ),
    "name": Sayings(
        (
            "My {subject} is called {value}, in case I mention it.",
            "{value}, who is my {subject}, was in an odd mood today.",
            "I ran into my {subject} at the tram stop; you know, {value}.",
        ),
        ("I have added {value} to your contacts as your {subject}.",),
        "What was the name of my {subject} again?",
        _pairs("""
            dentist | Who looks after my teeth?
            landlord | Who owns the flat that we rent?
            piano teacher | Who gives me lessons on the keyboard?
            tax adviser | Who does my paperwork for the revenue office?
            plumber | Who comes when the pipes leak?
            physiotherapist | Who treats my stiff back?
            vet | Which doctor sees our animals?
            driving instructor | Who shows me how to handle a car?
            godmother | Who held me at my christening?
            babysitter | Who minds the children when we go out?
            boss | Who do I report to at work?
            tailor | Who alters my suits?
            choir leader | Who conducts our singing?
            hairdresser | Who cuts my curls?
            swimming coach | Who trains me in the water?
            neighbour upstairs | Who lives above us?
            lawyer | Who represents me in court?
            chimney sweep | Who cleans the flue?
            optician | Who made my glasses?
            florist | Where do I order bouquets, with whom?
            butcher | Who sells me sausages?
            cardiologist | Which specialist listens to my heart?
            mother-in-law | Who is my wife's mum?
            bank clerk | Who handles my account?
            bookseller | Who recommends novels to me in the shop?
            mechanic | Who fixes my engine?
            estate agent | Who is finding us a house to buy?
            yoga teacher | Who makes me stretch on the mat?
            chess partner | Who do I move pawns against?
            gardener | Who mows and prunes for me?
            therapist | With whom do I talk about my fears?
            publisher | Who prints my poems?
            carpenter | Who builds our shelves?
            surgeon | Who operated on my knee?
            headmaster | Who runs the kids' school?
            priest | Who says mass here?
            baker | From whom do I get the rolls?
            electrician | Who wired our place?
            midwife | Who helped when the baby was born?
            interpreter | Who translates for me?
        """),
    ),
    "promise": Sayings(
        (
            "I promised to {value} before {subject}.",
            "I must not forget to {value} before {subject}.",
            "Remind me to {value} before {subject}.",
        ),
        ("I will remind you to {value} before {subject}.",),
        "What did we say about the time before {subject}?",
        _triples("""
            we drive to the lake | water the bonsai | Which chore comes ahead of the trip to the shore?
            the surveyor comes | photocopy the deeds | What is to be done by the time the land gets measured?
            school starts | sew in the name tags | What is due ahead of the first day of classes?
            I see the notary | find the marriage lines | What should I have ready for the legal appointment?
            the in-laws arrive | hide the accordion | What did I vow to do ahead of my wife's parents' visit?
            we fly to Malta | renew the cat's microchip | What needs doing ahead of the island vacation?
            I hand in the thesis | have the bibliography proofread | Which task is left ahead of submitting my dissertation?
            the movers come | empty the aquarium | What must be finished by the day our furniture is carried out?
            I go to the cardiologist | fast for a night | How do I prepare for the heart doctor?
            the freezer is delivered | measure the pantry | What should I check ahead of the cooling appliance turning up?
            the choir tours Wales | transpose the descant | What has to be done ahead of the singers' journey?
            Ottilie turns ninety | restore the family album | What is planned ahead of the old lady's anniversary?
            the bees swarm | paint the second hive | What do I owe the insects in spring?
            the tenants move in | rehang the shutters | What is to be ready for those who rent the flat?
            the frost sets in | wrap the fig tree | What has to happen ahead of winter cold?
            the auction closes | appraise the etchings | What did I undertake to do ahead of the bidding's end?
            the band rehearses | restring the mandolin | What is my duty ahead of musical practice?
            the inspector visits | label the fuse box | What has to be right for the official check?
            the baby is born | assemble the cradle | What should stand ready for the newborn?
            the marathon | break in the new trainers | What did I want to do ahead of the long run?
            the gallery opens | varnish the triptych | What is outstanding ahead of the art show?
            Dad's operation | donate blood | What did I pledge ahead of my father's surgery?
            the book club meets | finish the Icelandic saga | What am I to read for the literary evening?
            the regatta | patch the spinnaker | What has to be mended for the boat race?
            the sweep comes | clear out the grate | How do I get the fireplace ready?
            the harvest supper | pickle forty gherkins | What did I say I would prepare for the autumn feast?
            the visa expires | notarise the invitation | What is urgent because of the immigration papers?
            the vernissage | frame the charcoal sketches | Which job remains ahead of the exhibition's first evening?
            the christening | iron the lace gown | What has to be pressed for the baptism?
            the ferry leaves | grease the trailer hitch | What should be done to the vehicle ahead of the crossing?
            the board votes | circulate the minority report | What am I to send round ahead of the directors' decision?
            the lambs are sheared | sharpen the hand clippers | What did I mean to get ready for the wool?
            the premiere | learn the second monologue | What do I have to memorise for opening night?
            the lease ends | bleach the grouting | What must be cleaned as we give up the apartment?
            Jasper's recital | tape the metronome together | What has to be mended for the boy's concert?
            the fête | borrow a tombola drum | What did I undertake to get for the village party?
            the eclipse | order cardboard goggles | What do we need when the sun goes dark?
            the census | trace great-aunt Wilma | Which relative did I say I would look for, and why?
            the storm arrives | lash down the trampoline | What is to be secured against the gale?
            the exam | memorise the Latin ablatives | What should I study ahead of the test?
        """),  # noqa: E501
    ),
    "preference": Sayings(
        (
            "If it comes to {subject}, nothing beats {value}.",
            "You should know that my favourite {subject} is {value}.",
            "When somebody asks me about {subject}, I always say {value}.",
        ),
        ("I will remember that your {subject} of choice is {value}.",),
        "Which {subject} is my favourite?",
        _triples("""
            pizza topping | pickled walnuts | What do I love most on a margherita?
            herbal tea | verbena | Which infusion do I like to drink?
            board game | backgammon | What do I enjoy playing at the table?
            apple | russet | Which fruit from the orchard do I like to bite into?
            soup | sorrel broth | What would I gladly eat with a spoon as a starter?
            cheese | smoked ricotta | Which dairy product do I enjoy on bread?
            ice cream | liquorice | What frozen dessert would make me happy?
            sandwich | egg and cress | What do I like between two slices of toast?
            breakfast | kedgeree | What do I enjoy eating in the morning?
            pasta | orecchiette | Which noodles do I like?
            salad dressing | tahini and lemon | What do I like to pour over lettuce?
            cocktail | negroni | Which mixed drink should the barkeeper make me?
            birthday cake | poppy seed torte | What should be baked when I get a year older?
            wall colour | pale ochre | In what shade do I like rooms painted?
            flower | peonies | What would I like in my bouquet?
            poet | Tranströmer | Whose verses do I like to read?
            composer | Buxtehude | Whose music do I love to hear?
            film | The Third Man | What do I like to watch at the cinema?
            pen | a broad-nibbed Pelikan | What do I like to write with?
            walk | the towpath to Kelso | Where do I love to stroll?
            seat on trains | backwards by the window | How do I like to sit on the railway?
            pillow | buckwheat husks | What do I like under my head at night?
            typeface | Caslon | In which font do I like my letters set?
            season | late February | What part of the year do I enjoy most?
            spice | ground sumac | What do I love to put on my food for taste?
            whisky | Bruichladdich | Which scotch do I enjoy?
            bread | pumpernickel | Which loaf do I like from the bakery?
            museum | Kettle's Yard | Where do I love to look at art?
            instrument | viola da gamba | What do I love to hear being played?
            perfume | vetiver | Which scent do I like to wear?
            fabric | Harris tweed | What do I like my jackets woven from?
            card game | canasta | What do I enjoy with a deck and three friends?
            vegetable | salsify | Which greens do I like on the plate?
            stone | moss agate | Which gem would I like in a ring?
            dance | slow foxtrot | What do I enjoy in the ballroom?
            detective | Father Brown | Which sleuth do I like in mysteries?
            bird | treecreeper | Which feathered animal do I like best?
            hotel | Pension Edelweiss | Where do I like to spend the night when travelling?
            radio station | Radio Swiss Jazz | What do I like to listen to on air?
            way to cook eggs | coddled | How do I like what the hens lay?
        """),
    ),
    "date": Sayings(
        (
            "They fixed the {subject} for {value}.",
            "Please keep {value} free, that is when the {subject} takes place.",
            "The {subject} is on {value} and I have nothing to wear.",
        ),
        ("I have put the {subject} into your calendar for {value}.",),
        "On which day do we have the {subject}?",
        _pairs("""
            piano recital | Which day do I perform on the keyboard?
            chimney inspection | On what day will the flue be looked at?
            christening | When does the baby get baptised?
            thesis defence | When do I stand before the doctoral committee?
            garden party | Which day are the guests on our lawn?
            eye test | When is my vision being examined?
            house warming | When do we celebrate the new home?
            choir concert | Which evening do the singers perform?
            car inspection | When must the vehicle go to be checked?
            retirement do | When does my colleague say goodbye to working life?
            marathon | Which day do I run the forty-two kilometres?
            parents' evening | When do mums and dads meet the teachers?
            book launch | When is my novel presented?
            moving day | When does our furniture go to the new apartment?
            school play | When are the pupils on stage?
            silver wedding | When have we been married for twenty-five years?
            blood donation | When do I let them take some of my red cells?
            flea market | Which day can we sell our old stuff?
            court hearing | When does the judge see us?
            job interview | When do I meet the possible employer?
            boiler service | When does the heating engineer visit?
            dog show | When are the hounds judged?
            wine harvest | When do we pick the grapes?
            class reunion | When do I meet those I went to school with?
            fire drill | When do we practise leaving the burning building?
            vaccination | When do I get the jab?
            tax deadline | By when must the revenue office have my papers?
            ferry crossing | On which day are we at sea?
            allotment meeting | When do the vegetable growers assemble?
            haircut | When will I lose my curls?
            gas meter reading | When do they note how much fuel we used?
            lunar eclipse | When does the moon go dark?
            village fair | When are the carousels on the green?
            chess tournament | When do I compete at the board with the pawns?
            hip operation | When is grandma in surgery?
            tango evening | When do we go dancing?
            census visit | When do the population counters ring?
            bread course | When am I taught to bake loaves?
            stag night | When do we go drinking with the bridegroom?
            piano delivery | When do they bring the grand?
        """),
    ),
}
